"""Running an experiment with a setting made in a test."""

import json

from dbmd.experiments.experiment import Experiment
from dbmd.storage import plain


def run_all(name, setting):
    """Return the records of all tasks as they are read from a file."""
    run = Experiment.load(name).run
    records = [task | record for task in run.tasks(setting) for record in run.run(task, setting)]
    return json.loads(json.dumps(plain(records), allow_nan=False))
