"""A package with a module, so that imports write compiled files."""
from .stand import Stand

__all__ = ["Stand"]
