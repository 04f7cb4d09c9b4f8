"""What runs on the device: model contract, preprocessing, runtime, classifier, field runner."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("mango-leaf-kit")
except PackageNotFoundError:  # a checkout on PYTHONPATH that was never installed
    __version__ = "0+uninstalled"
