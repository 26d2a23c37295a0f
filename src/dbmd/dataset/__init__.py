"""Data to fit: arrays in memory, files of any size, or a collection of Spark or Dask.

:func:`open_data` returns a :class:`Dataset`, of the kind that the data need:

- :class:`InMemory`: arrays, here or on a GPU, an AnnData, or files that were small enough to be loaded.
- :class:`FileDataset`: files that are read in every pass, or that the workers of a cluster load.
- :class:`CollectionDataset`: a DataFrame or array whose partitions stay on the workers of a cluster.
- :class:`SingleBlock`: one block of samples that is read by one thread, such as a backed AnnData.
"""

from dbmd.dataset._anndata import is_anndata
from dbmd.dataset._arrays import InMemory, in_memory
from dbmd.dataset._base import Dataset
from dbmd.dataset._block import SingleBlock
from dbmd.dataset._collection import CollectionDataset
from dbmd.dataset._files import FileDataset
from dbmd.dataset._open import framework_of, is_path, open_data

__all__ = [
    "CollectionDataset",
    "Dataset",
    "FileDataset",
    "InMemory",
    "SingleBlock",
    "framework_of",
    "in_memory",
    "is_anndata",
    "is_path",
    "open_data",
]

# Documentation and tracebacks name the package, whatever file a name is in today.
for public in (CollectionDataset, Dataset, FileDataset, InMemory, SingleBlock, in_memory, open_data):
    public.__module__ = __name__
del public
