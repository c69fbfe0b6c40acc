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


def text(body: str, name: str, triple: str) -> str:
    """RUN or WORK as a module for a target, in which the function is called `name`."""
    intrinsic, kinds, values = PAUSE.get(triple.partition("-")[0], ("", "", ""))
    pause = f"call void @{intrinsic}({values})" if intrinsic else ""
    declared = f"declare void @{intrinsic}({kinds})\n" if intrinsic else ""
    whole = body.replace("PAUSE", pause).replace("@NAME(", f"@{name}(")
    whole = whole.replace("MOST", str(MOST)).replace("SPINS", str(SPINS))
    return whole + SOME + declared
