"""A pickle of arrays, read without unpickling: opcodes are interpreted, and nothing in the file can be called.

femr 0.1 writes its weights (`model/best`) as a pickle of nested dicts of arrays. A pickle is a program; this reads the
few instructions such a file needs: constants, tuples, lists, dicts, and a few names that are never imported but stand
for what is built here: numpy's array constructors, `numpy.ndarray`, `numpy.dtype`, and jax's call around them. Any
other name or instruction is refused by name. Only `pressroom convert` uses it, never a service.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from export.errors import CheckpointFileError

_SIZES = (("f", "248"), ("i", "1248"), ("u", "1248"), ("b", "1"))
_DTYPES = {f"{kind}{size}" for kind, sizes in _SIZES for size in sizes}
_RECONSTRUCT = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
_BUFFER = {("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer")}
_JAX = {("jax._src.array", "_reconstruct_array"), ("jax.interpreters.xla", "_reconstruct_array")}
_LATIN = {("_codecs", "encode")}  # bytes, as protocols 0 to 2 write them
_NAMES = _RECONSTRUCT | _BUFFER | _JAX | _LATIN | {("numpy", "ndarray"), ("numpy", "dtype")}
_CONSTANTS = frozenset(
    """NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING
    SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 UNICODE BINUNICODE SHORT_BINUNICODE
    BINUNICODE8""".split()  # noqa: SIM905 (a list of quoted words is harder to read)
)
_VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_MARK = object()
_HINT = "only femr's own parameter files are converted: nested dicts of numpy arrays"


@dataclass
class _Name:
    """A global the file names; never imported."""

    module: str
    name: str


@dataclass
class _Array:
    """An array being rebuilt; `value` is there once its state was seen."""

    value: Any = None


@dataclass
class _Dtype:
    """A data type being rebuilt, e.g. `f4`; byte order comes with its state."""

    code: str
    order: str = "="


@dataclass
class _Machine:
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def until_mark(self) -> list[Any]:
        """What lies above the last mark; the mark goes, too."""
        place = max(i for i, value in enumerate(self.stack) if value is _MARK)
        found = self.stack[place + 1 :]
        del self.stack[place:]
        return found


def read_arrays(raw: bytes) -> Any:
    """The object in a pickle: dicts, lists, tuples, constants and numpy arrays. Raises CheckpointFileError."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(raw):
            if opcode.name == "STOP":
                return _finished(machine.stack.pop())
            _step(machine, opcode.name, argument)
    except CheckpointFileError:
        raise
    except Exception:  # a damaged file may end or contradict itself anywhere
        raise CheckpointFileError("the pickle is damaged", _HINT) from None
    raise CheckpointFileError("the pickle has no end", _HINT)


def _step(machine: _Machine, name: str, argument: Any) -> None:
    stack = machine.stack
    if name in _CONSTANTS:
        stack.append(_VALUES.get(name, argument))
    elif name in _ACTIONS:
        _ACTIONS[name](machine, argument)
    elif name not in ("PROTO", "FRAME"):
        raise CheckpointFileError(f"the pickle uses the instruction {name}", _HINT)


def _mark(machine: _Machine, _: Any) -> None:
    machine.stack.append(_MARK)


def _memoize(machine: _Machine, _: Any) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _put(machine: _Machine, place: Any) -> None:
    machine.memo[int(place)] = machine.stack[-1]


def _get(machine: _Machine, place: Any) -> None:
    machine.stack.append(machine.memo[int(place)])


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def action(machine: _Machine, _: Any) -> None:
        taken = [machine.stack.pop() for _ in range(count)][::-1]
        machine.stack.append(tuple(taken))

    return action


def _tuple(machine: _Machine, _: Any) -> None:
    machine.stack.append(tuple(machine.until_mark()))


def _empty(make: Callable[[], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make())


def _append(machine: _Machine, _: Any) -> None:
    value = machine.stack.pop()
    _as(list, machine.stack[-1]).append(value)


def _appends(machine: _Machine, _: Any) -> None:
    values = machine.until_mark()
    _as(list, machine.stack[-1]).extend(values)


def _set_item(machine: _Machine, _: Any) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _as(dict, machine.stack[-1])[key] = value


def _set_items(machine: _Machine, _: Any) -> None:
    values = machine.until_mark()
    _as(dict, machine.stack[-1]).update(zip(values[::2], values[1::2], strict=True))


def _dict(machine: _Machine, _: Any) -> None:
    values = machine.until_mark()
    machine.stack.append(dict(zip(values[::2], values[1::2], strict=True)))


def _list(machine: _Machine, _: Any) -> None:
    machine.stack.append(machine.until_mark())


def _global(machine: _Machine, argument: Any) -> None:
    module, _, name = str(argument).partition(" ")
    machine.stack.append(_known(module, name))


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_known(str(module), str(name)))


def _known(module: str, name: str) -> _Name:
    if (module, name) not in _NAMES:
        raise CheckpointFileError(f"the pickle wants {module[:60]}.{name[:60]}", _HINT)
    return _Name(module, name)


def _reduce(machine: _Machine, _: Any) -> None:
    """A call: only of the known names, and it is answered here."""
    arguments, called = machine.stack.pop(), _as(_Name, machine.stack.pop())
    pair = (called.module, called.name)
    if pair in _RECONSTRUCT:
        machine.stack.append(_Array())
    elif pair == ("numpy", "dtype"):
        machine.stack.append(_dtype(arguments[0]))
    elif pair in _LATIN:
        machine.stack.append(_as(str, arguments[0]).encode("latin-1"))
    elif pair in _BUFFER:  # (bytes, data type, shape, order)
        data, dtype, shape, order = arguments
        array = _Array()
        _set_state(array, (1, shape, dtype, order == "F", data))
        machine.stack.append(array)
    elif pair in _JAX:  # (numpy's constructor, its arguments, the array's state, what jax knows of it)
        array = _Array()
        _set_state(array, arguments[2])
        machine.stack.append(array)
    else:
        raise CheckpointFileError(f"the pickle calls {called.module}.{called.name}", _HINT)


def _build(machine: _Machine, _: Any) -> None:
    state = machine.stack.pop()
    built = machine.stack[-1]
    if isinstance(built, _Array):
        _set_state(built, state)
    elif isinstance(built, _Dtype):
        built.order = "=" if state[1] == "|" else str(state[1])
    else:
        raise CheckpointFileError("the pickle gives a state to something else than an array", _HINT)


def _dtype(code: Any) -> _Dtype:
    if code not in _DTYPES:
        raise CheckpointFileError(f"the pickle holds arrays of type {str(code)[:20]}", "expected numbers")
    return _Dtype(code)


def _set_state(array: _Array, state: Any) -> None:
    """numpy's state: version, shape, data type, whether in Fortran's order, bytes."""
    _, shape, dtype, fortran, data = state
    kind = np.dtype(_as(_Dtype, dtype).code).newbyteorder(dtype.order)
    made = np.frombuffer(bytes(data), dtype=kind)
    array.value = made.reshape([int(n) for n in shape], order="F" if fortran else "C")


def _as(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        raise CheckpointFileError("the pickle's instructions do not fit together", _HINT)
    return value


def _finished(value: Any) -> Any:
    """The object with arrays in place of what stood for them."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, dict):
        return {key: _finished(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finished(one) for one in value]
    if isinstance(value, _Name | _Dtype):
        raise CheckpointFileError("the pickle holds something else than arrays", _HINT)
    return value


_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _mark, "MEMOIZE": _memoize, "PUT": _put, "BINPUT": _put, "LONG_BINPUT": _put,
    "GET": _get, "BINGET": _get, "LONG_BINGET": _get,
    "EMPTY_TUPLE": _tuple_of(0), "TUPLE1": _tuple_of(1), "TUPLE2": _tuple_of(2), "TUPLE3": _tuple_of(3),
    "TUPLE": _tuple, "EMPTY_LIST": _empty(list), "EMPTY_DICT": _empty(dict), "LIST": _list, "DICT": _dict,
    "APPEND": _append, "APPENDS": _appends, "SETITEM": _set_item, "SETITEMS": _set_items,
    "GLOBAL": _global, "STACK_GLOBAL": _stack_global, "REDUCE": _reduce, "BUILD": _build,
}  # fmt: skip
