"""Files on disk → samples and labels, and splits. Knows of no method."""

from dcadl.data.folder import image_folder
from dcadl.data.images import read_images
from dcadl.data.labelled import read_labelled
from dcadl.data.load import load
from dcadl.data.split import Split, repeated_splits, split

__all__ = [
    "Split",
    "image_folder",
    "load",
    "read_images",
    "read_labelled",
    "repeated_splits",
    "split",
]
