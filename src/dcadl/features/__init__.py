"""Pictures of differing sizes → feature vectors: dense SIFT, visual words, spatial pyramid, PCA."""

from dcadl.features.pyramid import SpatialPyramid

__all__ = ["SpatialPyramid"]
