"""What stops a measurement."""

from __future__ import annotations


class MeasurementFailed(Exception):
    """A contender did not do its work: there is nothing to measure."""
