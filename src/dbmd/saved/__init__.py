"""What is kept in files: a model as a directory, the state of a fit as a checkpoint, and the lock on both.

    MODEL/model.json             parameters, sources, history, versions; for people, too      directory.py
    MODEL/arrays.npz             components, noise levels, profile, labels                    directory.py
    MODEL/report.html            the page                                                     report/page.py
    MODEL/map.npz                memberships as a picture, if the rows are its pixels         membership_map.py
    MODEL/metadata/part-00000    what pyspark.ml writes for each stage                        spark/files.py
    MODEL.checkpoint             the last state of a fit that is not finished                 checkpoint.py
    MODEL.lock                   the process that writes MODEL, while it does                 lock.py

Every file is written under a temporary name and renamed (:mod:`dbmd.storage`); nothing is pickled. The names stand in
``dbmd/_utils/model_files.py``.
"""
