import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbmd import DBMD


@parametrize_with_checks([DBMD(n_components=2, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
