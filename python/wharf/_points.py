"""Values that were reported and not sent yet, thinned as the supervisor and the head do.

Steps are divided into buckets of equal width, a power of two, and the first value of each bucket is kept, beside the last value of
all. Where more than POINTS_MAX buckets have a value, the width (the stride) is doubled.
"""

from __future__ import annotations

import json
import math
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

#: Buckets of a metric.
POINTS_MAX = 512
#: Metrics of a job, and bytes of a name.
NAMES_MAX = 64
NAME_BYTES_MAX = 64
#: Names in one row of a datagram.
ROW_NAMES_MAX = 16

Number = Union[float, str]
Row = List[Any]


class _Metric:
    """The values of one name."""

    def __init__(self) -> None:
        self.stride = 1
        self._count = 0
        self._bucket = -1
        # The first of each bucket, as (step, time, value); then the last of all, where it is none of them.
        self.waiting: List[Tuple[int, float, Any]] = []
        self.last: Optional[Tuple[int, float, Any]] = None
        self._step = -1

    def add(self, step: int, time_s: float, value: Any) -> None:
        point = (step, time_s, value)
        if step < self._step:
            # Another loop that begins again.
            self._bucket = -1
        self._step = step
        if step // self.stride != self._bucket:
            self._bucket = step // self.stride
            self.waiting.append(point)
            self.last = None
            self._count += 1
            if self._count > POINTS_MAX:
                self._widen()
        elif self.waiting and self.waiting[-1][0] == step:
            self.waiting[-1] = point
        else:
            self.last = point

    def _widen(self) -> None:
        self.stride *= 2
        # At least so many of the wider buckets have a value: the stride never exceeds that of the stored curve.
        self._count //= 2
        self._bucket = self._step // self.stride
        kept: List[Tuple[int, float, Any]] = []
        for point in self.waiting:
            if not kept or point[0] // self.stride != kept[-1][0] // self.stride:
                kept.append(point)
            elif point[0] == self._step:
                self.last = point
        self.waiting = kept

    def take(self) -> List[Tuple[int, float, Any]]:
        points, self.waiting = self.waiting, []
        if self.last is not None:
            points.append(self.last)
            self.last = None
        return points


class Points:
    """The values of all names."""

    def __init__(self) -> None:
        self._metrics: Dict[str, _Metric] = {}
        self._latest: Dict[str, Any] = {}
        # How many values were not stored because of their names, and the first of these names.
        self._refused_count = 0
        self._refused = ""

    def add(self, name: str, step: int, time_s: float, value: Any) -> None:
        metric = self._metrics.get(name)
        if metric is None:
            if not self._may_store(name):
                return
            metric = self._metrics[name] = _Metric()
        self._latest[name] = value
        metric.add(step, time_s, value)

    @property
    def is_waiting(self) -> bool:
        """Whether there are values that were not sent."""
        return bool(self._latest)

    def _may_store(self, name: str) -> bool:
        if len(self._metrics) >= NAMES_MAX:
            problem = f"a job has at most {NAMES_MAX} metrics"
        elif not name or len(name.encode(errors="replace")) > NAME_BYTES_MAX or not name.isprintable():
            problem = f"a name has 1 to {NAME_BYTES_MAX} bytes and no control characters"
        else:
            return True
        self._refused_count += 1
        if self._refused_count == 1:
            self._refused = name
            warnings.warn(f"wharf: metric {name[:NAME_BYTES_MAX]!r} is not stored: {problem}", RuntimeWarning, stacklevel=4)
        return False

    def messages(self, bytes_max: int) -> List[Dict[str, Any]]:
        """Everything that waits, in messages that are not longer than allowed."""
        messages: List[Dict[str, Any]] = []
        size = bytes_max
        for key, piece in self._pieces():
            more = _size(piece) + _size(key)
            if size + more > bytes_max:
                messages.append({"points": []})
                size = _size(messages[-1])
            size += more
            if isinstance(piece, dict):
                messages[-1].setdefault(key, {}).update(piece)
            else:
                messages[-1].setdefault(key, []).append(piece)
        if messages and self._refused_count:
            messages[0]["refused"] = [self._refused_count, ascii(self._refused)[:NAME_BYTES_MAX]]
        return messages

    def _pieces(self) -> Iterator[Tuple[str, Any]]:
        latest, self._latest = self._latest, {}
        for name, value in latest.items():
            number = _number(value)
            if number is not None:
                yield "metrics", {name: number}
        for row in self._rows():
            yield "points", row
            strides = {name: self._metrics[name].stride for name in row[2] if self._metrics[name].stride > 1}
            if strides:
                yield "strides", strides

    def _rows(self) -> List[Row]:
        by_step: Dict[Tuple[int, float], Row] = {}
        rows: List[Row] = []
        for name, metric in self._metrics.items():
            for step, time_s, value in metric.take():
                number = _number(value)
                if number is None:
                    continue
                row = by_step.get((step, time_s))
                if row is None or len(row[2]) >= ROW_NAMES_MAX:
                    row = by_step[step, time_s] = [step, round(time_s, 3), {}]
                    rows.append(row)
                row[2][name] = number
        rows.sort(key=lambda row: row[0])
        return rows


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) + 1


def _number(value: Any) -> Optional[Number]:
    """A number as JSON has it; NaN and infinity are texts. None where a value cannot be read any more."""
    try:
        number = float(value)
    except OverflowError:
        # An integer beyond the largest float.
        return "inf" if value > 0 else "-inf"
    except (TypeError, ValueError, RuntimeError):
        return None
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")
