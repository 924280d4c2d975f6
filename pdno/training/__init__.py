"""Training: any network on any dataset, from the same command on one device or many.

fit          the public verb, and the loop behind it
settings     how to train, and the learning rate of a step
task         which frames a network sees and gives, and learners, which predict as a task says
samples      samples in memory, and the examples that a task makes of them
normalizer   statistics of samples, and a network between its normalisers
checkpoint   what a run keeps: its history, and all that it needs to go on
distributed  the processes of torchrun
"""
