"""Training: any network on any dataset, from the same command on one device or many.

fit          the public verb, and the loop behind it
settings     how to train, and the learning rate of a step
task         what a task is, and static maps; recurrent and one_shot have the other tasks
samples      samples in memory, and the examples that a task makes of them
normalizer   statistics of samples, and a network between its normalisers
learner      network, normalisers and task: all that predicting needs
checkpoint   what a run keeps to go on; history: where it stands and its rows per epoch
distributed  the processes of torchrun
"""
