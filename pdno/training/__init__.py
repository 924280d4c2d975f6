"""Training: any network on any dataset, from the same command on one device or many.

fit, loop          the public verb, and the steps of a training
settings           options of the training, and the learning rate of a step
task, losses       which frames a network sees and predicts, and what is minimised
trained_operator   the result of a training, which predicts, saves and loads itself
operator_record    what it records: sampling, settings, model card
samples            samples in memory, and the examples that a task makes of them
normalizer         statistics of samples, and a network between its normalisers
checkpoint         the history of a training, and all that it needs to resume
distributed        the processes of torchrun
"""
