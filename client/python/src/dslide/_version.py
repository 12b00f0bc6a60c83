"""The version of this package: that of the servers it was made with."""

__version__ = "0.2.0"
