"""Files on disk → samples and labels, splits, and features. Knows of no method."""

from dcadl.data.folder import image_folder
from dcadl.data.images import read_images
from dcadl.data.labelled import read_labelled

__all__ = ["image_folder", "read_images", "read_labelled"]
