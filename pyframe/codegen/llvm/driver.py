"""The native code that runs launches, alone or with threads, as LLVM IR: text that never changes.

RUN makes launches one after the other. Each stands in an entry of four words: the function, where
the number of its units stands, where its own words stand (the addresses of its bindings, then that
of its params), and how many bindings these are. WORK is what a thread runs to help: it takes units
of the launch at hand until there has been none for so many looks. Both know each other by the
pool's memory, of four cache lines:

    0    units << 40 | units that RUN took << 20 | units that threads took
    64   the entry of the launch
    128  how many units are done by threads
    192  not 0: threads are to stop; the system's function that lets other threads run

RUN takes units from the front, threads from the back: of arrays that several launches read, each
finds its own part in its cache again. Whoever takes a unit knows from the same word whether there
was one left, and RUN goes on only when all are done: so the entry is the right one.

A product of matrices is made by BLAS, whose address is in its words. Each unit is one product of a
batch, or some of its rows or columns.
"""

from __future__ import annotations

POOL = 256  # bytes of a pool's memory
ENTRY = 4  # words
MOST = (1 << 20) - 4096  # units that can be shared out; of more, threads take none
SPINS = 1 << 10  # looks after which who waits lets other threads run, such as the one it waits for

RUN = """
define void @NAME(ptr %entries, i64 %first, i64 %last, ptr %pool) #0 {
entry:
  %none = icmp eq ptr %pool, null
  %any = icmp slt i64 %first, %last
  br i1 %any, label %launch, label %end
launch:
  %k = phi i64 [ %first, %entry ], [ %next, %launched ]
  %at = shl i64 %k, 5
  %e = getelementptr i8, ptr %entries, i64 %at
  %f = load ptr, ptr %e
  %pu = getelementptr i8, ptr %e, i64 8
  %au = load ptr, ptr %pu
  %units = load i64, ptr %au
  %few = icmp ult i64 %units, 2
  %many = icmp ugt i64 %units, MOST
  %alone1 = or i1 %none, %few
  %alone = or i1 %alone1, %many
  br i1 %alone, label %all, label %shared
all:
  call void @some(ptr %e, i64 0, i64 %units)
  br label %launched
shared:
  %pe = getelementptr i8, ptr %pool, i64 64
  %pd = getelementptr i8, ptr %pool, i64 128
  store ptr %e, ptr %pe
  store atomic i64 0, ptr %pd monotonic, align 8
  %offer = shl i64 %units, 40
  store atomic i64 %offer, ptr %pool release, align 8
  br label %take
take:
  %mine = phi i64 [ 0, %shared ], [ %more, %unit ]
  %t = atomicrmw add ptr %pool, i64 1048576 acq_rel
  %back = and i64 %t, 1048575
  %t1 = lshr i64 %t, 20
  %front = and i64 %t1, 1048575
  %taken = add i64 %front, %back
  %left = icmp ult i64 %taken, %units
  br i1 %left, label %unit, label %finish
unit:
  %after = add i64 %front, 1
  call void @some(ptr %e, i64 %front, i64 %after)
  %more = add i64 %mine, 1
  br label %take
finish:
  %theirs = sub i64 %units, %mine
  br label %wait
wait:
  %spins = phi i64 [ 0, %finish ], [ %spins1, %spun ]
  %done = load atomic i64, ptr %pd acquire, align 8
  %ready = icmp uge i64 %done, %theirs
  br i1 %ready, label %launched, label %spin
spin:
  PAUSE
  %spins1 = add i64 %spins, 1
  %long = icmp ugt i64 %spins1, SPINS
  br i1 %long, label %let, label %spun
let:
  %py = getelementptr i8, ptr %pool, i64 200
  %yield = load ptr, ptr %py
  call void %yield()
  br label %spun
spun:
  br label %wait
launched:
  %next = add i64 %k, 1
  %on = icmp slt i64 %next, %last
  br i1 %on, label %launch, label %end
end:
  ret void
}

"""

WORK = """
define void @NAME(ptr %pool, i64 %looks) #0 {
entry:
  %pe = getelementptr i8, ptr %pool, i64 64
  %pd = getelementptr i8, ptr %pool, i64 128
  %ps = getelementptr i8, ptr %pool, i64 192
  %py = getelementptr i8, ptr %pool, i64 200
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n1, %stay ], [ %n1, %let ], [ 0, %unit ], [ %n, %take ]
  %now = load atomic i64, ptr %pool acquire, align 8
  %now.back = and i64 %now, 1048575
  %now1 = lshr i64 %now, 20
  %now.front = and i64 %now1, 1048575
  %now.taken = add i64 %now.front, %now.back
  %now.units = lshr i64 %now, 40
  %some = icmp ult i64 %now.taken, %now.units
  br i1 %some, label %take, label %idle
idle:
  PAUSE
  %n1 = add i64 %n, 1
  %stop = load atomic i64, ptr %ps monotonic, align 8
  %wanted = icmp eq i64 %stop, 0
  %soon = icmp ult i64 %n1, %looks
  %patient = and i1 %wanted, %soon
  br i1 %patient, label %stay, label %end
stay:
  %turn = urem i64 %n1, SPINS
  %pause = icmp ne i64 %turn, 0
  br i1 %pause, label %look, label %let
let:
  %yield = load ptr, ptr %py
  call void %yield()
  br label %look
take:
  %t = atomicrmw add ptr %pool, i64 1 acq_rel
  %back = and i64 %t, 1048575
  %t1 = lshr i64 %t, 20
  %front = and i64 %t1, 1048575
  %taken = add i64 %front, %back
  %units = lshr i64 %t, 40
  %left = icmp ult i64 %taken, %units
  br i1 %left, label %unit, label %look
unit:
  %e = load ptr, ptr %pe
  %last = sub i64 %units, %back
  %at = sub i64 %last, 1
  call void @some(ptr %e, i64 %at, i64 %last)
  %old = atomicrmw add ptr %pd, i64 1 release
  br label %look
end:
  ret void
}

"""

SOME = """
define internal void @some(ptr %e, i64 %begin, i64 %end) #0 {
  %f = load ptr, ptr %e
  %pw = getelementptr i8, ptr %e, i64 16
  %words = load ptr, ptr %pw
  %pn = getelementptr i8, ptr %e, i64 24
  %bindings = load i64, ptr %pn
  %pp = getelementptr ptr, ptr %words, i64 %bindings
  %params = load ptr, ptr %pp
  call void %f(ptr %words, ptr %params, i64 %begin, i64 %end)
  ret void
}

attributes #0 = { nounwind }
"""

# how a thread tells its core that it waits, by the first word of the target's name
PAUSE = {
    "x86_64": ("llvm.x86.sse2.pause", "", ""),
    "aarch64": ("llvm.aarch64.hint", "i32", "i32 1"),
    "arm64": ("llvm.aarch64.hint", "i32", "i32 1"),
}

# Words of a product: how many units; BLAS's function; the matrices a, b and out; m, n, k; whether a
# and b are transposed, and the elements from row to row of each and of out; how many products the
# inner batch has, and the elements from one to the next of each, outer and inner; into how many
# parts the rows and the columns of a product are cut.
PRODUCT = (
    "units blas a b out m n k a_trans b_trans a_row b_row out_row inner a_outer b_outer out_outer "
    "a_inner b_inner out_inner row_parts column_parts"
).split()


def text(body: str, name: str, triple: str) -> str:
    """RUN or WORK as a module for a target, in which the function is called `name`."""
    intrinsic, kinds, values = PAUSE.get(triple.partition("-")[0], ("", "", ""))
    pause = f"call void @{intrinsic}({values})" if intrinsic else ""
    declared = f"declare void @{intrinsic}({kinds})\n" if intrinsic else ""
    whole = body.replace("PAUSE", pause).replace("@NAME(", f"@{name}(")
    whole = whole.replace("MOST", str(MOST)).replace("SPINS", str(SPINS))
    return whole + SOME + declared


def product(real: str, int_bits: int) -> str:
    """A module with products of matrices of `real`, `float` or `double`, by a BLAS whose sizes are
    ints of so many bits: `@kernel`, which is launched like any other."""
    size = 4 if real == "float" else 8
    lines: list[str] = []
    for n, name in enumerate(PRODUCT):
        kind = "ptr" if name in ("blas", "a", "b", "out") else "i64"
        lines += [f"%{name}.at = getelementptr i64, ptr %words, i64 {n}",
                  f"%{name} = load {kind}, ptr %{name}.at"]  # fmt: skip
    lines += [
        "%a.is = trunc i64 %a_trans to i1", "%b.is = trunc i64 %b_trans to i1",
        "%a.step = select i1 %a.is, i64 1, i64 %a_row",
        "%b.step = select i1 %b.is, i64 %b_row, i64 1",
        "%a.order = select i1 %a.is, i32 112, i32 111",
        "%b.order = select i1 %b.is, i32 112, i32 111",
        "%parts = mul i64 %row_parts, %column_parts", "%any = icmp slt i64 %begin, %end",
        "br i1 %any, label %unit, label %done", "unit:",
        "%u = phi i64 [ %begin, %entry ], [ %next, %unit ]",
        "%part = urem i64 %u, %parts", "%batch = udiv i64 %u, %parts",
        "%bi = urem i64 %batch, %inner", "%bo = udiv i64 %batch, %inner",
        "%row = urem i64 %part, %row_parts", "%column = udiv i64 %part, %row_parts",
    ]  # fmt: skip
    for cut, count, part in (("m", "row_parts", "row"), ("n", "column_parts", "column")):
        lines += [
            f"%{cut}.next = add i64 %{part}, 1",
            f"%{cut}.lo0 = mul i64 %{cut}, %{part}", f"%{cut}.lo = udiv i64 %{cut}.lo0, %{count}",
            f"%{cut}.hi0 = mul i64 %{cut}, %{cut}.next",
            f"%{cut}.hi = udiv i64 %{cut}.hi0, %{count}",
            f"%{cut}.now = sub i64 %{cut}.hi, %{cut}.lo",
        ]  # fmt: skip
    lines += [
        "%a.cut = mul i64 %m.lo, %a.step", "%b.cut = mul i64 %n.lo, %b.step",
        "%out.row = mul i64 %m.lo, %out_row", "%out.cut = add i64 %out.row, %n.lo",
    ]  # fmt: skip
    for x in ("a", "b", "out"):
        lines += [
            f"%{x}.o = mul i64 %bo, %{x}_outer", f"%{x}.i = mul i64 %bi, %{x}_inner",
            f"%{x}.oi = add i64 %{x}.o, %{x}.i", f"%{x}.off = add i64 %{x}.oi, %{x}.cut",
            f"%{x}.bytes = mul i64 %{x}.off, {size}",
            f"%{x}.now = getelementptr i8, ptr %{x}, i64 %{x}.bytes",
        ]  # fmt: skip
    sizes = ["m.now", "n.now", "k", "a_row", "b_row", "out_row"]
    if int_bits < 64:
        lines += [f"%{x}.s = trunc i64 %{x} to i{int_bits}" for x in sizes]
        sizes = [f"{x}.s" for x in sizes]
    mnk = ", ".join(f"i{int_bits} %{x}" for x in sizes[:3])
    a_row, b_row, out_row = (f"i{int_bits} %{x}" for x in sizes[3:])
    matrices = f"ptr %a.now, {a_row}, ptr %b.now, {b_row}, {real} 0.0, ptr %out.now, {out_row}"
    lines += [
        f"call void %blas(i32 101, i32 %a.order, i32 %b.order, {mnk}, {real} 1.0, {matrices})",
        "%next = add i64 %u, 1", "%on = icmp slt i64 %next, %end",
        "br i1 %on, label %unit, label %done", "done:", "ret void",
    ]  # fmt: skip
    head = "define void @kernel(ptr %words, ptr %params, i64 %begin, i64 %end) #0 {"
    return "\n".join([head, "entry:", *lines, "}", "attributes #0 = { nounwind }", ""])
