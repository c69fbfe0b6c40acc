"""How a batch goes from a worker to the main process: pickled, its arrays in shared memory.

A block is a file in memory, without a name, mapped by both: the system frees it with the last
mapping, however the processes end. The worker makes the blocks and uses one again once nothing in
the main process refers to the batch that was in it. Only Linux has such files: elsewhere all goes
through the pipe.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.tensor import Tensor, from_numpy

INLINE = 1 << 16  # bytes of arrays in a batch, up to which a copy through the pipe is faster
ALIGN = 64
SPARE = 3  # free blocks that a worker keeps besides those it fills ahead
MAX_BLOCKS = 64  # blocks of a worker: each is an open file, of which a process may not have many


class _BatchPickler(pickle.Pickler):
    """Arrays stay outside of the pickle; a tensor of the CPU is its array, without a copy."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is not Tensor:
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                "DataLoader: a batch holds a tensor that others with requires_grad went into; such "
                "a history can't leave the worker process: detach() it"
            )
        if obj.is_cuda:
            return NotImplemented
        array = obj.detach()._host()
        if dt.dtype.from_numpy(array.dtype) is not obj.dtype:  # bfloat16, which NumPy lacks
            return NotImplemented
        return _tensor, (np.ascontiguousarray(array).reshape(array.shape), obj.requires_grad)


def _tensor(array: np.ndarray, requires_grad: bool) -> Tensor:
    return from_numpy(array).requires_grad_(requires_grad)


def _socket(conn: Any) -> socket.socket:
    """What a pipe is where files go through it."""
    return socket.fromfd(conn.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


@dataclass
class Parcel:
    """A pickled batch: its arrays come along or lie in a block."""

    pickled: bytes
    arrays: list[bytearray]
    block: int = -1
    size: int = 0  # of a block that is new; its file comes next
    spans: list[tuple[int, int]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # blocks that will not be used again


class Sender:
    """The worker's end."""

    def __init__(self, conn: Any, ahead: int) -> None:
        self.conn, self.most = conn, ahead + SPARE
        self.free: list[int] = []
        self.blocks: dict[int, mmap.mmap] = {}
        self.dropped: list[int] = []
        self.made = 0

    def release(self, blocks: list[int]) -> None:
        """The main process is done with these."""
        self.free += blocks
        while len(self.free) > self.most:
            self._drop(self.free[0])

    def _drop(self, block: int) -> None:
        self.free.remove(block)
        self.dropped.append(block)
        self.blocks.pop(block).close()

    def pack(self, batch: Any) -> tuple[Parcel, Any]:
        """A batch as a parcel, and the file of its block if that is new."""
        found: list[pickle.PickleBuffer] = []
        text = io.BytesIO()
        _BatchPickler(text, 5, buffer_callback=found.append).dump(batch)
        arrays = [b.raw() for b in found]
        total = sum(-(-a.nbytes // ALIGN) * ALIGN for a in arrays)
        parcel = Parcel(text.getvalue(), [], dropped=self.dropped)
        self.dropped = []
        block, file = self._block(total) if total > INLINE else (-1, None)
        if block < 0:
            parcel.arrays = [bytearray(a) for a in arrays]
            return parcel, None
        parcel.block = block
        memory, at = self.blocks[block], 0
        if file is not None:
            parcel.size = len(memory)
        for a in arrays:
            memory[at : at + a.nbytes] = a
            parcel.spans.append((at, a.nbytes))
            at += -(-a.nbytes // ALIGN) * ALIGN
        return parcel, file

    def _block(self, total: int) -> tuple[int, Any]:
        """A block that is large enough, -1 if there can be none, and its file if it is new."""
        fits = [b for b in self.free if len(self.blocks[b]) >= total]
        if fits:
            block = min(fits, key=lambda b: len(self.blocks[b]))
            self.free.remove(block)
            return block, None
        if self.free:  # all are too small: one goes, so that there are not more and more
            self._drop(self.free[0])
        if len(self.blocks) >= MAX_BLOCKS:
            return -1, None
        try:
            file = open(os.memfd_create("pyframe-batch"), "r+b", buffering=0)  # noqa: SIM115
        except (AttributeError, OSError):  # there is no such file
            return -1, None
        size = 1 << (total - 1).bit_length()  # what is not written to takes no memory
        file.truncate(size)
        self.made += 1
        self.blocks[self.made] = mmap.mmap(file.fileno(), size)
        return self.made, file

    def send(self, number: int, parcel: Any, file: Any = None) -> None:
        """Hand over what was asked for under a number."""
        self.conn.send_bytes(pickle.dumps((number, parcel), 5))
        if file is not None:
            # multiprocessing's own function waits for an answer from Python 3.14 on, which whoever
            # listens for tasks would take
            with file, _socket(self.conn) as way:
                socket.send_fds(way, [b"f"], [file.fileno()])


class Receiver:
    """The main process's end."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        self.blocks: dict[int, mmap.mmap] = {}
        self.lent: dict[int, Any] = {}  # what tells when a block is free
        self.freed: list[int] = []  # blocks of which the worker is not told yet

    def receive(self) -> tuple[int, Any]:
        """What comes next: its number, and a Parcel or what a worker has to say."""
        number, parcel = pickle.loads(self.conn.recv_bytes())
        if isinstance(parcel, Parcel):
            for block in parcel.dropped:
                del self.blocks[block]
            if parcel.size:
                with _socket(self.conn) as way:
                    files = socket.recv_fds(way, 1, 1)[1]
                if not files:
                    raise EOFError  # the worker has ended
                try:
                    self.blocks[parcel.block] = mmap.mmap(files[0], parcel.size)
                finally:
                    os.close(files[0])
        return number, parcel

    def unpack(self, parcel: Parcel) -> Any:
        """The batch; its arrays are the memory of the block."""
        if parcel.block < 0:
            return pickle.loads(parcel.pickled, buffers=parcel.arrays)
        whole = np.frombuffer(self.blocks[parcel.block], np.uint8)
        freed, block = self.freed, parcel.block
        self.lent[block] = weakref.ref(whole, lambda _: freed.append(block))
        return pickle.loads(parcel.pickled, buffers=[whole[at : at + n] for at, n in parcel.spans])

    def ignore(self, parcel: Any) -> None:
        """Nobody wants it any more."""
        if isinstance(parcel, Parcel) and parcel.block >= 0:
            self.freed.append(parcel.block)

    def take_freed(self) -> list[int]:
        """The blocks that the worker may use again."""
        n = len(self.freed)  # more may come meanwhile
        freed = self.freed[:n]
        del self.freed[:n]
        return freed
