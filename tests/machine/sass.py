"""The reader of machine code (device/sass.c) against nvdisasm: instruction by instruction, over PTX of every form of
float instruction (forms.py) and the corpus' kernels, for every architecture that it claims. Each must be known by its
name; of float instructions the whole text must be the same, of branches where they lead. All registers and predicates
that it writes, and those that float instructions read, must be those that nvdisasm draws (-plr). What is not
understood must be refused by name (REFUSED), never read as something else.

  sass.py SASS-PRINT CORPUS CUDA-HOME [some|few]

Needs DOVETAIL_PTXAS and DOVETAIL_NVDISASM. The corpus' kernels are compiled where NVRTC is. some: four
architectures, one of them for the corpus' CUDA C++, a third of wgmma's shapes. few, of a reader with a sanitizer: two
architectures, nothing of CUDA C++.
"""
import ctypes
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from forms import forms, text

FLOATS = set("FFMA2 FMUL2 FADD2 FHADD FHFMA FMNMX3 UFMUL UI2F UF2I UI2FP FMNMX FSET FSETP FMUL FADD FFMA DMUL DADD "
             "DSETP DFMA HADD2 HFMA2 HMUL2 HSET2 HSETP2 F2FP F2IP I2FP HMNMX2 FCHK F2F F2I I2F FRND MUFU HMMA DMMA "
             "FSEL".split())
# Known by name alone: code that has one is refused.
REFUSED = {"UTCHMMA": "UTCMMA", "UTCIMMA": "UTCMMA", "UTCQMMA": "UTCMMA", "UTCOMMA": "UTCMMA", "UTCBAR": "UTCBAR",
           "UTCCP": "UTCCP", "UTCSHIFT": "UTCSHIFT", "UTCATOMSWS": "UTCATOMSWS", "LDTM": "LDTM", "STTM": "STTM",
           "UGETNEXTWORKID": "UGETNEXTWORKID", "LDGMC": "LDGMC", "UREDGR": "UREDGR", "RPCMOV": "RPCMOV"}
NAMED = 12  # enum sass_class: such an instruction
NO_REGISTER = set("CALL ISETP UISETP FSETP DSETP HSETP2 FCHK RET PLOP3 UPLOP3 R2P BAR NANOSLEEP ST STG STS STL STSM "
                  "STAS RED REDG BRA BRX BRXU CCTL LDGSTS UBLKCP UBLKPF LDGDEPBAR WARPSYNC QSPC".split())
# One opcode, or a kind of it, under more than one name there.
# Of small floats: conversions from and to them, those of eight bits with four or five of exponent aside.
FORMATS = re.compile(r"\.(E8|E2M1|E2M3|E3M2|RS|TF32)\b|\.S2\b")
ALIASES = {"CGAERRBAR": "ERRBAR", "REDG": "RED", "UCGABAR_ARV": "UCGABAR", "UCGABAR_WAIT": "UCGABAR"}


def ptxas(ptx, sm, out):
    with open(out + ".ptx", "w", encoding="ascii") as f:
        f.write(ptx)
    r = subprocess.run([os.environ["DOVETAIL_PTXAS"], f"-arch=sm_{sm}", "-O3", out + ".ptx", "-o", out],
                       capture_output=True, text=True, check=False)
    return "" if r.returncode == 0 else r.stdout + r.stderr


def joined(texts):
    """One module of several for one target: nvdisasm takes 0.3 seconds to start. Names of one get a number at their
    end, that they do not meet those of another."""
    versions, bodies = [], []
    for k, ptx in enumerate(texts):
        versions.append(re.search(r"^\.version (\d+)\.(\d+)", ptx, re.M))
        body = re.sub(r"^\.(version|target|address_size) .*$", "", ptx, flags=re.M)
        linkage = r"^\s*(?:\.(?:visible|weak|common) +)*"
        names = set(re.findall(linkage + r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", body, re.M))
        names |= set(re.findall(linkage + r"(?:\.extern +)?\.(?:global|const|shared)\b[^;={(]*?([\w$]+)\s*[=;\[]", body,
                                re.M))
        bodies.append(re.sub(r"(?<![\w$.%])[\w$]+(?![\w$.])", lambda m: f"{m[0]}__{k}" if m[0] in names else m[0],
                             body))
    newest = max(versions, key=lambda m: (int(m[1]), int(m[2])))
    target = re.search(r"^\.target .*", texts[0], re.M)
    return "\n".join([newest[0], target[0], ".address_size 64", *bodies])


def assembled(texts, sm, out):
    """Cubins of the modules: of all in one, or, where ptxas does not take that, of each that it takes."""
    if not ptxas(joined(texts), sm, out):
        return [out]
    each = [f"{out}-{k}" for k in range(len(texts))]
    return [path for path, ptx in zip(each, texts) if not ptxas(ptx, sm, path)]


def all_forms(sm, out):
    """The cubin of all forms that this ptxas takes for sm: those that it refuses are left out, few."""
    some = forms(sm)
    for _ in range(3):
        ptx = text(sm, some)
        log = ptxas(ptx, sm, out)
        if not log:
            break
        lines = ptx.split("\n")
        refused = {lines[int(n) - 1] for n in re.findall(r"line (\d+)", log)}
        kept = [f for f in some if not any(f.replace("-1;", "0xffffffff;") in r for r in refused)]
        assert len(some) - 40 < len(kept) < len(some), log[:2000]
        some = kept
    assert not log, log[:2000]
    return len(some)


def nvrtc_ptx(source, home):
    found = sorted(glob.glob(home + "/lib64/libnvrtc.so*") + glob.glob(home + "/lib/libnvrtc.so*")
                   + glob.glob(home + "/targets/*/lib/libnvrtc.so*"))
    if not found:
        return None
    lib = ctypes.CDLL(found[0])
    prog, size = ctypes.c_void_p(), ctypes.c_size_t()
    with open(source, "rb") as f:
        lib.nvrtcCreateProgram(ctypes.byref(prog), f.read(), b"k.cu", 0, None, None)
    options = [b"-arch=compute_90", b"--std=c++17", b"-I" + home.encode() + b"/include"]
    if lib.nvrtcCompileProgram(prog, len(options), (ctypes.c_char_p * len(options))(*options)):
        return None
    lib.nvrtcGetPTXSize(prog, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetPTX(prog, ptx)
    return ptx.value.decode()


def disassembled(cubin):
    """(address, text, low, high) of every instruction, functions one after the other; branches with the address that
    they lead to."""
    out = subprocess.run([os.environ["DOVETAIL_NVDISASM"], "-c", "-hex", cubin], capture_output=True, text=True,
                         check=True).stdout.split("\n")
    labels, waiting, rows = {}, [], []
    for line, following in zip(out, out[1:]):
        if re.match(r"^\S+:$", line):
            waiting.append(line[:-1])
        m = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s+/\* 0x([0-9a-f]{16}) \*/", line)
        if m:
            high = re.search(r"/\* 0x([0-9a-f]{16}) \*/", following)
            labels.update(dict.fromkeys(waiting, m[1]))
            waiting.clear()
            rows.append((int(m[1], 16), re.sub(r"\s+", " ", m[2].rstrip(" ;").replace(".reuse", "")).replace(" ,", ","),
                         int(m[3], 16), int(high[1], 16)))
    for at, t, low, high in rows:
        yield at, re.sub(r"`\((\S+)\)$", lambda m: "0x" + labels[m[1]], t), low, high


FILES = {"GPR": "R", "PRED": "P", "UGPR": "U", "UPRED": "UP"}


def registers(cubin):
    """(address, written, read) of every instruction, as nvdisasm draws their lives: sets of R1, U2, P3, UP4."""
    out = subprocess.run([os.environ["DOVETAIL_NVDISASM"], "-c", "-hex", "-plr", cubin], capture_output=True, text=True,
                         check=True).stdout.split("\n")
    columns, files, at, rows = [], [], 0, []
    for text, _, life in (line.partition("//") for line in out):
        names = re.findall(r"\b(GPR|PRED|UGPR|UPRED)\b", life)
        if names:
            files = [FILES[n] for n in names]
        elif re.search(r"# +0", life):  # which register a column is
            columns, start = [], 0
            for part, kind in zip(life.split("|")[1:], files):
                start = life.index("|", start) + 1
                columns += [(start + m.start(), start + m.end(), kind + m[0]) for m in re.finditer(r"\d+", part)]
        else:
            m = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s+/\* 0x[0-9a-f]{16} \*/", text)
            at = int(m[1], 16) if m else at
            if not m and re.match(r"\s*/\* 0x[0-9a-f]{16} \*/", text):
                marks = [(r, life[a:b].strip()) for a, b, r in columns]
                rows.append((at, {r for r, k in marks if k in ("^", "x")}, {r for r, k in marks if k in ("v", "x")}))
    return rows


def warp_groups(folder, every):
    """PTX of wgmma in many shapes (each of them, or each third), and of copies of tensors in all their kinds. Products
    differ in width, types, signs, transposition, and in whether the first factor is in registers, whether the sum is
    that of before."""
    body = []
    shapes = [(n, 16, "f32", "f16.f16") for n in (8, 24, 64, 96, 128, 200, 248)] + [(64, 16, "f32", "bf16.bf16")]
    shapes += [(n, 16, "f16", "f16.f16") for n in (8, 64, 192)] + [(64, 8, "f32", "tf32.tf32")]
    shapes += [(64, 32, a, f"{x}.{y}") for a in ("f32", "f16") for x in ("e4m3", "e5m2") for y in ("e4m3", "e5m2")]
    shapes += [(n, 32, "s32", "s8.u8") for n in (8, 16, 24, 32, 48, 64, 128, 224, 256)]
    for k, (n, depth, to, types) in enumerate(shapes[::every]):
        count, letter = (n // 4, "r") if to == "f16" else (n // 2, "f" if to == "f32" else "r")
        regs = [f"%{letter}{i}" for i in range(count)]
        for form in range(4):
            first = "{%r130, %r131, %r132, %r133}" if form & 1 else "%q1"
            turn = "" if depth != 16 else ", 1" if form & 1 else ", 0, 1"
            signs = "" if to == "s32" else ", 1, -1" if form & 2 else ", 1, 1"
            body += [f"ld.global.b32 {r}, [%q3+{4 * i}];" for i, r in enumerate(regs)]
            body += [f"wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{to}.{types} "
                     f"{{{', '.join(regs)}}}, {first}, %q2, {'%p1' if form & 2 else 1}{signs}{turn}; "
                     "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"]
            body += [f"st.global.b32 [%q3+{4 * i + 4096 * k}], {r};" for i, r in enumerate(regs)]
    copies = []
    for n in range(1, 6):
        at = f"[%q4, {{{', '.join(['%r131'] * n)}}}]"
        for more, last in ("", ""), (".multicast::cluster", ", %h1"):
            copies += [f"cp.async.bulk.tensor.{n}d.shared::cluster.global.mbarrier::complete_tx::bytes{more} [%r130], "
                       f"{at}, [%r132]{last};"]
        copies += [f"cp.async.bulk.tensor.{n}d.global.shared::cta.bulk_group {at}, [%r130];",
                   f"cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.add.bulk_group {at}, [%r130];",
                   f"cp.async.bulk.prefetch.tensor.{n}d.L2.global {at};"]
    path = os.path.join(folder, "warp-groups.ptx")
    with open(path, "w", encoding="ascii") as f:
        f.write(".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 d, "
                ".param .align 64 .b8 m[128], .param .u32 n) .reqntid 128\n{\n.reg .b64 %q<9>; .reg .f32 %f<140>; "
                ".reg .b32 %r<140>; .reg .b16 %h<2>; .reg .pred %p<3>;\nld.param.u64 %q1, [x]; ld.param.u64 %q2, [d]; "
                "ld.param.u64 %q3, [x]; mov.b64 %q4, m; cvta.param.u64 %q4, %q4; ld.param.u32 %r130, [n]; "
                "ld.param.u32 %r131, [n]; ld.param.u32 %r132, [n]; ld.param.u32 %r133, [n]; cvt.u16.u32 %h1, %r130; "
                "setp.ne.u32 %p1, %r130, 5;\n" + "\n".join(body + copies) + "\n"
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%q3], [%r130], 128;\n"
                "prefetch.tensormap [%q4]; mbarrier.inval.shared.b64 [%r132];\nret;\n}\n")
    return path


def bits(number, double):
    try:
        value = float(number)
    except ValueError:
        return None
    return (f"0x{struct.unpack('<Q', struct.pack('<d', value))[0] >> 32:08x}" if double
            else f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08x}")


def as_bits(theirs, mine, op):
    """Their operands with immediates as bits, as ours have them; infinities and NaNs, and halves of bfloats, are taken
    from ours."""
    a, b = theirs.split(", "), mine.split(", ")
    for k, operand in enumerate(b):
        if "0x" not in operand or "c[" in operand or k >= len(a):
            continue
        if re.match(r"^0x[0-9a-f]+$", a[k]):
            a[k] = f"0x{int(a[k], 16):08x}"
        elif op[0] == "H" and len(a) == len(b) + 1:
            halves = [f"{struct.unpack('<H', struct.pack('<e', float(x)))[0]:04x}" if re.match(r"^[-+\d.e]+$", x)
                      and "BF16" not in mine else None for x in a[k:k + 2]]
            a[k:k + 2] = ["0x" + "".join(halves) if None not in halves else operand]
        elif re.match(r"^[+-]?(INF|QNAN|SNAN)$", a[k].strip()):
            a[k] = operand
        else:
            a[k] = bits(a[k], op[0] == "D") or a[k]
    return ", ".join(a)


def renamed(theirs, mine, op, sm):
    """Names that nvdisasm gives otherwise on older architectures, or in another order."""
    if op == "F2F" and "BF16" in theirs:
        theirs = re.sub(r"F2F\.FTZ(\.\w+\.\w+)", r"F2F\1.FTZ", theirs)
    if sm < 90:
        theirs = re.sub(r"^DMMA\.884|(?<= )DMMA\.884", "DMMA.8x8x4", theirs)
        theirs = re.sub(r"F2FP(\.RELU)?(\.BF16)?\.(PACK_AB|MERGE_C)",
                        lambda m: f"F2FP{m[1] or ''}{m[2] or '.F16'}.F32.{m[3]}", theirs)
        mine = mine.replace(".BF16", ".F16") if op == "MUFU" else mine
    return theirs, mine


def differs(theirs, row, sm):
    leads, known, written, mine = row.split("|", 3)
    plain = re.sub(r"^@!?U?P\w+ ", "", theirs)
    op = plain.split()[0].split(".")[0]
    operands = plain.split(None, 1)[1] if " " in plain else ""
    if known == "-1":
        return "unknown"
    name = re.sub(r"^@!?P\w+ ", "", mine).split()[0].split(".")[0]
    if int(known) == NAMED:
        return None if name == REFUSED.get(op) or (op == "F2FP" and FORMATS.search(plain)) else "is refused"
    if op in REFUSED:
        return "is not refused"
    if name != ALIASES.get(op, op):
        return f"is {name}"
    if op in ("BRA", "CALL") and re.search(r"0x[0-9a-f]+$",
                                           operands) and ".ABS" not in plain and int(operands.split()[-1],
                                               16) != int(leads, 16):
        return f"leads to 0x{leads}"
    m = re.match(r"(?:U?P\w+, )*(U?R(?:\d+|Z))\b(?!\.)", operands)
    want = m[1] if m and not m[1].endswith("Z") else "-"
    got = written.split("/")[0].replace("U", "UR") if not written.startswith("-") else "-"
    if "ENL2" in plain: # the second of two places stands first there
        want = got
    if op not in NO_REGISTER and not op.startswith(("ATOM", "SYNCS")) and want != got:
        return f"writes {written}"
    shape = re.match(r"[HIQ]GMMA\.64x(\d+)x\d+(\.F16)?", plain)  # 64 rows over 128 threads
    if shape and written.split("/")[1] != str(int(shape[1]) // (4 if shape[2] else 2)):
        return f"writes {written}"
    if op not in FLOATS:
        return None
    a, b = renamed(theirs, mine, op, sm)
    a = as_bits(a, b, op)
    return None if a == b else f"'{b}' for '{a}'"


def lives_differ(theirs, row, drawn, sm):
    """Registers and predicates written, and those that a float instruction reads, against what is drawn. Uniform
    predicates are not followed. A call is drawn with what its function may change, a copy to shared memory with the
    predicate that it reads."""
    op = re.sub(r"^@!?U?P\w+ ", "", theirs).split()[0].split(".")[0]
    written, read = (set(x.split()) for x in row.split("|"))
    if written == {"?"} or op in ("CALL", "LDGSTS"):
        return None
    _, want, wanted = drawn
    want = {r for r in want if not r.startswith("UP") and not (r[0] == "P" and "P*" in written)}
    if sm == 87 and op == "UMOV" and not want: # what nobody reads is not drawn at all there
        return None
    if written - {"P*"} != want:
        return f"writes {sorted(written)} for {sorted(want)}"
    wanted = {r for r in wanted if r[0] in "RU" and not r.startswith("UP") and not (r[0] == "U" and "GMMA" in op)}
    return f"reads {sorted(read)} for {sorted(wanted)}" if read != {"?"} and read != wanted else None


def compare(cubin, sm, printer):
    rows = list(disassembled(cubin))
    given = "\n".join(f"{at:x} {low:x} {high:x}" for at, _, low, high in rows)
    out = subprocess.run([printer, str(sm)], input=given, capture_output=True, text=True, check=True).stdout.split("\n")
    bad = [f"sm_{sm}: {what}: {t} {high:016x}{low:016x}" for (_, t, low, high), row in zip(rows, out)
           if (what := differs(t, row, sm))]
    mine = subprocess.run([printer, str(sm), "registers"], input=given, capture_output=True, text=True,
                          check=True).stdout.split("\n")
    lives = iter(registers(cubin))
    now = next(lives, None)
    for (at, t, _, _), row in zip(rows, mine): # what is never reached is not drawn
        if now and now[0] == at:
            if (what := lives_differ(t, row, now, sm)):
                bad.append(f"sm_{sm}: {what}: {t}")
            now = next(lives, None)
    assert now is None, "drawn lives without an instruction"
    assert len(out) > len(rows) > 0
    floats = sum(re.sub(r"^@!?U?P\w+ ", "", t).split()[0].split(".")[0] in FLOATS for _, t, _, _ in rows)
    return len(rows), floats, bad


def tensor_memory(folder):
    """PTX of what works in tensor memory: known by name, and refused."""
    mma = ["f16", "tf32", "f8f6f4", "i8"]
    body = [f"tcgen05.mma.cta_group::1.kind::{k} [%r4], {a}, %q3, %r1, %p1;" for k in mma for a in ("%q2", "[%r4]")]
    body += [f"tcgen05.mma.cta_group::1.kind::{k} [%r4], %q2, %q3, %r1, [%r4], [%r4], %p1;"
             for k in ("mxf8f6f4.block_scale.scale_vec::1X", "mxf4nvf4.block_scale.scale_vec::4X")]
    body += ["tcgen05.mma.ws.cta_group::1.kind::f16 [%r4], %q2, %q3, %r1, %p1;",
             "tcgen05.cp.cta_group::1.128x256b [%r4], %q2;", "tcgen05.shift.cta_group::1.down [%r4];",
             "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%q1];",
             "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r5, %r6}, [%r4];", "tcgen05.wait::ld.sync.aligned;",
             "st.global.v2.b32 [%q1], {%r5, %r6};", "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r5, %r6};",
             "tcgen05.wait::st.sync.aligned;"]
    path = os.path.join(folder, "tensor-memory.ptx")
    with open(path, "w", encoding="ascii") as f:
        f.write(".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n"
                ".reg .b64 %q<4>; .reg .b32 %r<9>; .reg .pred %p<2>; .shared .align 16 .b8 s[64];\n"
                "ld.param.u64 %q1, [x]; ld.global.b64 %q2, [%q1]; ld.global.b64 %q3, [%q1+8]; ld.global.b32 %r1, "
                "[%q1+16]; setp.ne.b32 %p1, %r1, 5; mov.u32 %r3, s;\n"
                "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 64; ld.shared.b32 %r4, [%r3];\n"
                + "\n".join(body) + "\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 64;\n"
                "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r3+16];\n"
                "multimem.ld_reduce.relaxed.sys.global.add.f32 %r5, [%q1]; st.global.b32 [%q1], %r5;\nret;\n}\n")
    return path


def main():
    printer, corpus, home = sys.argv[1:4]
    few = sys.argv[4:] == ["few"]
    some = few or sys.argv[4:] == ["some"]
    if not os.environ.get("DOVETAIL_PTXAS") or not os.environ.get("DOVETAIL_NVDISASM"):
        return 77
    total = floats = failed = 0
    with tempfile.TemporaryDirectory() as d, ThreadPoolExecutor(2) as pool:
        sms = (90, 120) if few else (80, 90, 100, 120) if some else (75, 80, 86, 87, 89, 90, 100, 103, 120, 121)
        n = list(pool.map(lambda sm: all_forms(sm, f"{d}/f{sm}"), sms))
        jobs = [(f"{d}/f{sm}", sm) for sm in sms]
        sources = [] if few else sorted(glob.glob(corpus + "/*/*.cu"))
        compiled = [ptx for ptx in (nvrtc_ptx(source, home) for source in sources) if ptx]
        for sm in (90,) if some else (90, 100, 120):
            jobs += [(out, sm) for out in (assembled(compiled, sm, f"{d}/cuda-{sm}") if compiled else [])]
        by_target, by_hand = {}, [warp_groups(d, 3 if some else 1), tensor_memory(d)]
        for source in sorted(glob.glob(corpus + "/triton-*/*.ptx")) + by_hand:
            with open(source, encoding="ascii") as f:
                ptx = f.read()
            by_target.setdefault(int(re.search(r"^\.target sm_(\d+)", ptx, re.M)[1]), []).append(ptx)
        for target, texts in by_target.items():
            # those below 90 run on what is newer, too
            for sm in [target, *((120,) if few else (100, 120))] if target < 90 else [f"{target}a"]:
                out = f"{d}/{target}-{sm}"
                log = ptxas(joined(texts), sm, out)
                assert not log or "error" not in log, log
                jobs.append((out, sm if target < 90 else target))
        for rows, of_floats, bad in pool.map(lambda j: compare(*j, printer), jobs):
            total, floats, failed = total + rows, floats + of_floats, failed + len(bad)
            print("\n".join(bad[:10]), end="\n" if bad else "")
    print(f"{sum(n)} forms, {len(jobs) - len(sms)} cubins of corpus modules: {total} instructions, {floats} of floats, "
          f"{failed} read otherwise than nvdisasm does")
    assert total > (10000 if few else 20000) and floats > (4000 if few else 8000)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
