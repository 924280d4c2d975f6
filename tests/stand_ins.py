"""Stand-ins for trackers and tuners that the manual uses and the tests do not install.

Each has what the pages call, and refuses everything else, so that a page runs with or without the
package. What is logged is kept in `logged`.
"""

import importlib.util
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import torch


def missing(monkeypatch):
    """Put a stand-in for each package that is not installed into sys.modules; what they log."""
    logged = []
    for name, make in {
        "wandb": wandb,
        "mlflow": mlflow,
        "optuna": optuna,
        "lightning": lightning,
    }.items():
        if importlib.util.find_spec(name) is None:
            module = ModuleType(name)
            vars(module).update(make(logged))
            monkeypatch.setitem(sys.modules, name, module)
    return logged


def wandb(logged):
    def init(project, config):
        return nullcontext(SimpleNamespace(log=lambda values, step: logged.append((step, values))))

    return {"init": init}


def mlflow(logged):
    return {
        "set_tracking_uri": logged.append,
        "start_run": nullcontext,
        "log_params": logged.append,
        "log_metrics": lambda values, step: logged.append((step, values)),
    }


def optuna(logged):
    class TrialPruned(Exception):
        pass

    class Trial:
        def __init__(self):
            self.params, self.values = {}, []

        def suggest_int(self, name, low, high):
            return self.params.setdefault(name, (low + high) // 2)

        def suggest_float(self, name, low, high, log):
            return self.params.setdefault(name, (low * high) ** 0.5)

        def report(self, value, step):
            self.values.append((step, value))

        def should_prune(self):
            return len(self.values) > 1 and len(logged) > 0

    class Study:
        def optimize(self, objective, n_trials):
            for _ in range(n_trials):
                trial = Trial()
                try:
                    logged.append((objective(trial), trial.params))
                except TrialPruned:
                    continue
            _, self.best_params = min(logged, key=lambda pair: pair[0])

    return {"TrialPruned": TrialPruned, "create_study": lambda direction: Study()}


def lightning(logged):
    class Trainer:
        def __init__(self, max_epochs, **options):
            self.epochs = max_epochs

        def fit(self, module, loader):
            optimiser = module.configure_optimizers()
            for _ in range(self.epochs):
                for index, batch in enumerate(loader):
                    optimiser.zero_grad()
                    module.training_step(batch, index).backward()
                    optimiser.step()

    return {"LightningModule": torch.nn.Module, "Trainer": Trainer}
