"""Loads and stores at raw addresses, for kernels that walk rows inside pages and mapped files.

Numba arrays are typed and aligned; a row is neither. These intrinsics compile to single unaligned
machine instructions. They check nothing: callers pass addresses they have proven to be in range.
Addresses are int64 (user space ends far below 2**63), because Numba turns int64 + uint64 into a float.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _load(bits: int, result: types.Integer) -> Any:
    @intrinsic
    def load(_typing_context: Any, address: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            return builder.load(pointer, align=1)

        return result(types.int64), codegen

    return load


def _store(bits: int, value_type: types.Integer) -> Any:
    @intrinsic
    def store(_typing_context: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            builder.store(args[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, value_type), codegen

    return store


@intrinsic
def pointer_to(_typing_context: Any, address: Any) -> Any:
    """What `numba.carray` makes an array of: many arrays come to a kernel as one array of their addresses, since
    each array argument costs a call from Python more than most small kernels take."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


load_u8 = _load(8, types.uint8)
load_u16 = _load(16, types.uint16)
load_u32 = _load(32, types.uint32)
load_u64 = _load(64, types.uint64)
store_u8 = _store(8, types.uint8)
store_u16 = _store(16, types.uint16)
store_u32 = _store(32, types.uint32)
store_u64 = _store(64, types.uint64)


@intrinsic
def copy_bytes(_typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    """memcpy(target, source, size): the ranges do not overlap."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(
            builder,
            builder.inttoptr(args[0], byte_pointer),
            builder.inttoptr(args[1], byte_pointer),
            args[2],
            1,
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def move_bytes(_typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    """memmove(target, source, size): the ranges may overlap."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        cgutils.raw_memmove(
            builder,
            builder.inttoptr(args[0], byte_pointer),
            builder.inttoptr(args[1], byte_pointer),
            args[2],
            1,
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def swap_bytes(_typing_context: Any, value: Any) -> Any:
    """A big-endian word as a number, or back."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def multiply_high(_typing_context: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of a 128-bit product: maps a hash onto 0..n-1 without a division."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen
