"""The text of kernels as tensor compilers of 2020 to 2023 wrote it: an operator an entry, every shape a constant, flat
index arithmetic repeated at every access, tiles in shared memory with accumulators in registers, scalar loads, element-
wise operators as 256 blocks of 256 threads that stride over the tensor a constant number of times.

Each function gives a `Kernel`; its parameters are the outputs, then the inputs.
"""
from model import Kernel

STRIDE = 65536  # elements of an element-wise kernel's round: 256 blocks of 256 threads


def entry(name, params, body, grid, block, bounds=False):
    """`params`: (type, name); types without const, as such compilers have them."""
    threads = block[0] * block[1] * block[2]
    head = f"extern \"C\" __global__ void {f'__launch_bounds__({threads}) ' if bounds else ''}{name}("
    head += ", ".join(f"{t}* __restrict__ {n}" for t, n in params) + ") {\n"
    return Kernel(name, head + body + "}\n", grid, block)


def elementwise(name, count, params, value):
    """out[i] = value(i), with i the text of the flat index; the output is the first parameter."""
    flat = "((((int)blockIdx.x) * 256) + ((int)threadIdx.x))"
    rounds = -(-count // STRIDE)
    if rounds == 1:
        guard = "" if count % 256 == 0 else f"if ({flat} < {count}) "
        body = f"  {guard}{{\n    {params[0][1]}[{flat}] = {value(flat)};\n  }}\n"
        return entry(name, params, body, (-(-count // 256), 1, 1), (256, 1, 1))
    index = f"(((ax_outer * {STRIDE}) + (((int)blockIdx.x) * 256)) + ((int)threadIdx.x))"
    guard = "" if count % STRIDE == 0 else f"if ({index} < {count}) "
    body = (f"  for (int ax_outer = 0; ax_outer < {rounds}; ++ax_outer) {{\n"
            f"    {guard}{{\n      {params[0][1]}[{index}] = {value(index)};\n    }}\n  }}\n")
    return entry(name, params, body, (STRIDE // 256, 1, 1), (256, 1, 1))


def copy(name, count, source=lambda i: i):
    """A copy, or a transpose: out[i] = x[source(i)]."""
    return elementwise(name, count, [("float", "T_out"), ("float", "x")], lambda i: f"x[{source(i)}]")


def row_fold(name, rows, width, start, fold):
    """A reduction by rows, a thread a row, that keeps its partial result in global memory. `fold(old, new)`."""
    row = "((((int)blockIdx.x) * 256) + ((int)threadIdx.x))"
    element = f"x[((((((int)blockIdx.x) * {256 * width}) + (((int)threadIdx.x) * {width})) + k))]"
    guard = "" if rows % 256 == 0 else f"if ({row} < {rows}) "
    body = (f"  {guard}{{\n    T_red[{row}] = {start};\n  }}\n"
            f"  for (int k = 0; k < {width}; ++k) {{\n"
            f"    {guard}{{\n      T_red[{row}] = {fold(f'T_red[{row}]', element)};\n    }}\n  }}\n")
    return entry(name, [("float", "T_red"), ("float", "x")], body, (-(-rows // 256), 1, 1), (256, 1, 1))


def column_sum(name, batch, rows, width):
    """Sums down the columns of `batch` matrices, a thread a column, that keeps its partial result in global memory."""
    column = "((((int)blockIdx.x) * 256) + ((int)threadIdx.x))"
    element = f"x[((((({column} / {width}) * {rows * width}) + (k * {width})) + ({column} % {width})))]"
    guard = "" if batch * width % 256 == 0 else f"if ({column} < {batch * width}) "
    body = (f"  {guard}{{\n    T_red[{column}] = 0.000000e+00f;\n  }}\n"
            f"  for (int k = 0; k < {rows}; ++k) {{\n"
            f"    {guard}{{\n      T_red[{column}] = (T_red[{column}] + {element});\n    }}\n  }}\n")
    return entry(name, [("float", "T_red"), ("float", "x")], body, (-(-batch * width // 256), 1, 1), (256, 1, 1))


def row_sum(name, rows, width, more, value):
    """Sums by rows, a warp a row of 32 rows: partial sums of a lane, then a tree in volatile shared memory without a
    barrier between its steps. `value(i, row)`: what is added for element i; `more`: further parameters."""
    if rows % 32 or width % 32:
        raise ValueError(name)
    row = "((((int)blockIdx.x) * 32) + ((int)threadIdx.y))"
    start = f"((((int)blockIdx.x) * {32 * width}) + (((int)threadIdx.y) * {width}))"
    element = f"(({start} + (k_outer * 32)) + ((int)threadIdx.x))"
    slot = "((((int)threadIdx.y) * 32) + ((int)threadIdx.x))"
    red = "((volatile float*)red_buf0)"
    tree = "".join(f"    {red}[{slot}] = ({red}[{slot}] + {red}[({slot} + {step})]);\n" for step in (16, 8, 4, 2, 1))
    body = ("  float T_red_rf[1];\n  __shared__ float red_buf0[1024];\n  T_red_rf[(0)] = 0.000000e+00f;\n"
            f"  for (int k_outer = 0; k_outer < {width // 32}; ++k_outer) {{\n"
            f"    T_red_rf[(0)] = (T_red_rf[(0)] + {value(element, row)});\n  }}\n"
            f"  __syncthreads();\n  {red}[{slot}] = T_red_rf[(0)];\n  __syncthreads();\n"
            f"  if (((int)threadIdx.x) < 16) {{\n{tree}  }}\n  __syncthreads();\n"
            f"  if (((int)threadIdx.x) == 0) {{\n    T_red[{row}] = {red}[(((int)threadIdx.y) * 32)];\n  }}\n")
    return entry(name, [("float", "T_red"), ("float", "x"), *more], body, (rows // 32, 1, 1), (32, 32, 1))


def load_tile(shared, source, rows, depth, threads, tx, address, limit, across):
    """Statements that bring a tile of rows x depth into shared memory, an element a thread and statement. `address(row,
    column)` of the source; `limit(row)`: its guard against the end of the matrix, or None; `across`: columns of the
    tile lie together in shared memory."""
    out = ""
    for at in range(0, rows * depth, threads):
        flat = f"((((int)threadIdx.y) * {tx}) + ((int)threadIdx.x))"
        if at:
            flat = f"({flat} + {at})"
        row, column = f"({flat} / {depth})", f"({flat} % {depth})"
        value, end = f"{source}[{address(row, column)}]", limit(row)
        value = f"({end} ? {value} : 0.000000e+00f)" if end else value
        move = f"{shared}[{f'(({column} * {rows}) + {row})' if across else flat}] = {value};"
        last = at + threads > rows * depth
        out += f"    if ({flat} < {rows * depth}) {{\n      {move}\n    }}\n" if last else f"    {move}\n"
    return out


def matmul(name, batch, m, n, k, threads, registers, depth, across=False, bounds=False):
    """out[b][i][j] = sum over r of x[b][i][r] * w[b][j][r]: products of rows, as dense layers have them. `threads`: (x,
    y) of a block; `registers`: (rows, columns) that a thread computes, next to each other, or, with `across`, as far
    apart as the block has threads (virtual threads)."""
    (tx, ty), (rm, rn) = threads, registers
    tm, tn = ty * rm, tx * rn
    if k % depth:
        raise ValueError(name)
    x, y, bx, by, z = (f"((int){w})" for w in ("threadIdx.x", "threadIdx.y", "blockIdx.x", "blockIdx.y", "blockIdx.z"))

    def address(block, tile, plane):
        start = f"({z} * {plane}) + " if batch > 1 else ""
        return lambda row, column: f"((({start}((({block} * {tile}) + {row}) * {k})) + (k_outer * {depth})) + {column})"

    def limit(rows, block, tile):
        return lambda row: f"((({block} * {tile}) + {row}) < {rows})" if rows % tile else None

    def own(thread, number, i, many):  # row or column i of those that a thread has
        return f"({thread} + {i * many})" if across else f"(({thread} * {number}) + {i})"

    def tile(thread, number, i, many):  # where it is in shared memory
        if across:
            return f"((k_inner * {number * many}) + {own(thread, number, i, many)})"
        return f"((({thread} * {number * depth}) + k_inner) + {i * depth})"

    body = (f"  float compute_local[{rm * rn}];\n  __shared__ float x_shared[{tm * depth}];\n"
            f"  __shared__ float w_shared[{tn * depth}];\n"
            f"  float x_shared_local[{rm}];\n  float w_shared_local[{rn}];\n"
            f"  for (int i_c_init = 0; i_c_init < {rm}; ++i_c_init) {{\n"
            f"    for (int j_c_init = 0; j_c_init < {rn}; ++j_c_init) {{\n"
            f"      compute_local[((i_c_init * {rn}) + j_c_init)] = 0.000000e+00f;\n    }}\n  }}\n"
            f"  for (int k_outer = 0; k_outer < {k // depth}; ++k_outer) {{\n    __syncthreads();\n")
    body += load_tile("x_shared", "x", tm, depth, tx * ty, tx, address(by, tm, m * k), limit(m, by, tm), across)
    body += load_tile("w_shared", "w", tn, depth, tx * ty, tx, address(bx, tn, n * k), limit(n, bx, tn), across)
    body += f"    __syncthreads();\n    for (int k_inner = 0; k_inner < {depth}; ++k_inner) {{\n"
    body += "".join(f"      x_shared_local[({i})] = x_shared[{tile(y, rm, i, ty)}];\n" for i in range(rm))
    body += "".join(f"      w_shared_local[({j})] = w_shared[{tile(x, rn, j, tx)}];\n" for j in range(rn))
    for at in range(rm * rn):
        c = f"compute_local[({at})]"
        body += f"      {c} = ({c} + (x_shared_local[({at // rn})] * w_shared_local[({at % rn})]));\n"
    body += "    }\n  }\n"
    for at in range(rm * rn):
        row = f"(({by} * {tm}) + {own(y, rm, at // rn, ty)})"
        column = f"(({bx} * {tn}) + {own(x, rn, at % rn, tx)})"
        guards = [g for g in (f"({row} < {m})" if m % tm else "", f"({column} < {n})" if n % tn else "") if g]
        place = f"(({row} * {n}) + {column})" if batch == 1 else f"((({z} * {m * n}) + ({row} * {n})) + {column})"
        store = f"T_out[{place}] = compute_local[({at})];"
        body += f"  if ({' && '.join(guards)}) {{\n    {store}\n  }}\n" if guards else f"  {store}\n"
    params = [("float", "T_out"), ("float", "x"), ("float", "w")]
    return entry(name, params, body, (-(-n // tn), -(-m // tm), batch), (tx, ty, 1), bounds)


def load_vectors(shared, source, rows, depth, threads, address, limit):
    """As load_tile, four elements of a row a thread and statement; they lie down a column of the tile."""
    out = ""
    for at in range(0, rows * depth // 4, threads):
        flat = "((((int)threadIdx.y) * 16) + ((int)threadIdx.x))"
        if at:
            flat = f"({flat} + {at})"
        row, column = f"({flat} / {depth // 4})", f"(({flat} % {depth // 4}) * 4)"
        value, end = f"((float4*)({source} + {address(row, column)}))[0]", limit(row)
        value = f"({end} ? {value} : make_float4(0.000000e+00f, 0.000000e+00f, 0.000000e+00f, 0.000000e+00f))" \
            if end else value
        move = f"float4 {shared}_{at} = {value};\n" + "".join(
            f"      {shared}[((({column} + {i}) * {rows}) + {row})] = {shared}_{at}.{c};\n"
            for i, c in enumerate("xyzw"))
        last = at + threads > rows * depth // 4
        guard = f"if ({flat} < {rows * depth // 4}) " if last else ""
        out += f"    {guard}{{\n      {move}    }}\n"
    return out


def matmul_vectors(name, batch, m, n, k, registers, depth):
    """The same product by blocks of (16, 16) threads that move four elements at a time: fragments in rows and columns
    of four that lie together, the next four as far away as the block has threads."""
    (rm, rn), threads = registers, 256
    tm, tn = 16 * rm, 16 * rn
    if k % depth or k % 4 or n % tn or rm % 4 or rn % 4:
        raise ValueError(name)
    x, y, bx, by, z = (f"((int){w})" for w in ("threadIdx.x", "threadIdx.y", "blockIdx.x", "blockIdx.y", "blockIdx.z"))

    def address(block, tile, plane):
        start = f"({z} * {plane}) + " if batch > 1 else ""
        return lambda row, column: f"((({start}((({block} * {tile}) + {row}) * {k})) + (k_outer * {depth})) + {column})"

    def own(thread, i):
        return f"(({thread} * 4) + {i // 4 * 64 + i % 4})"

    body = (f"  float compute_local[{rm * rn}];\n  __shared__ __align__(16) float x_shared[{tm * depth}];\n"
            f"  __shared__ __align__(16) float w_shared[{tn * depth}];\n"
            f"  float x_shared_local[{rm}];\n  float w_shared_local[{rn}];\n"
            f"  for (int c_init = 0; c_init < {rm * rn}; ++c_init) {{\n"
            "    compute_local[c_init] = 0.000000e+00f;\n  }\n"
            f"  for (int k_outer = 0; k_outer < {k // depth}; ++k_outer) {{\n    __syncthreads();\n")
    body += load_vectors("x_shared", "x", tm, depth, threads, address(by, tm, m * k),
                         lambda row: f"((({by} * {tm}) + {row}) < {m})" if m % tm else None)
    body += load_vectors("w_shared", "w", tn, depth, threads, address(bx, tn, n * k), lambda row: None)
    body += f"    __syncthreads();\n#pragma unroll\n    for (int k_inner = 0; k_inner < {depth}; ++k_inner) {{\n"
    for shared, thread, count, tile in (("x", y, rm, tm), ("w", x, rn, tn)):
        for i in range(0, count, 4):
            body += (f"      ((float4*)({shared}_shared_local + {i}))[0] = "
                     f"((float4*)({shared}_shared + ((k_inner * {tile}) + {own(thread, i)})))[0];\n")
    for at in range(rm * rn):
        c = f"compute_local[({at})]"
        body += f"      {c} = ({c} + (x_shared_local[({at // rn})] * w_shared_local[({at % rn})]));\n"
    body += "    }\n  }\n"
    for at in range(0, rm * rn, 4):
        row = f"(({by} * {tm}) + {own(y, at // rn)})"
        column = f"(({bx} * {tn}) + {own(x, at % rn)})"
        place = f"(({row} * {n}) + {column})" if batch == 1 else f"((({z} * {m * n}) + ({row} * {n})) + {column})"
        four = ", ".join(f"compute_local[({at + i})]" for i in range(4))
        store = f"((float4*)(T_out + {place}))[0] = make_float4({four});"
        body += f"  if (({row} < {m})) {{\n    {store}\n  }}\n" if m % tm else f"  {store}\n"
    params = [("float", "T_out"), ("float", "x"), ("float", "w")]
    return entry(name, params, body, (n // tn, -(-m // tm), batch), (16, 16, 1), True)


def convolution(name, cin, cout, side, window):
    """out[o][r][c] = sum over i, a, b of x[i][r + a][c + b] * w[o][i][a][b], zeros around the image. A block has 32
    channels of one line; its threads, a half of the line, 8 times: 4 channels and 2 places each; of a line that has no
    half, all of it: 4 channels and one place. Channels of the input come in by 8; what lies outside of the image is
    told by a guard on the index, as an inlined padding is."""
    places = 1 if side % 2 else 2
    half, depth, edge = side // places, 8, window // 2
    line, taps, threads = side + 2 * edge, window * window, half * 8
    if cin % depth or cout % 32:
        raise ValueError(name)
    flat0 = f"((((int)threadIdx.y) * {half}) + ((int)threadIdx.x))"
    body = (f"  float compute[{4 * places}];\n  __shared__ float pad_temp_shared[{depth * window * line}];\n"
            f"  __shared__ float kernel_shared[{32 * depth * taps}];\n"
            f"  for (int ff_init = 0; ff_init < {4 * places}; ++ff_init) {{\n"
            "    compute[ff_init] = 0.000000e+00f;\n  }\n"
            f"  for (int rc_outer = 0; rc_outer < {cin // depth}; ++rc_outer) {{\n    __syncthreads();\n")
    for at in range(0, depth * window * line, threads):
        flat = f"({flat0} + {at})" if at else flat0
        y = f"((((int)blockIdx.y) + (({flat} % {window * line}) / {line})) - {edge})"
        x = f"(({flat} % {line}) - {edge})"
        channel = f"((rc_outer * {depth}) + ({flat} / {window * line}))"
        value = f"x[((({channel} * {side * side}) + ({y} * {side})) + {x})]"
        if edge:
            inside = " && ".join(f"(0 <= {v}) && ({v} < {side})" for v in (y, x))
            value = f"(({inside}) ? {value} : 0.000000e+00f)"
        move = f"pad_temp_shared[{flat}] = {value};"
        guard = f"if ({flat} < {depth * window * line}) " if at + threads > depth * window * line else ""
        body += f"    {guard}{{\n      {move}\n    }}\n"
    for at in range(0, 32 * depth * taps, threads):
        flat = f"({flat0} + {at})" if at else flat0
        row = f"((((int)blockIdx.z) * 32) + ({flat} / {depth * taps}))"
        move = (f"kernel_shared[{flat}] = w[((({row} * {cin * taps}) + (rc_outer * {depth * taps})) + "
                f"({flat} % {depth * taps}))];")
        guard = f"if ({flat} < {32 * depth * taps}) " if at + threads > 32 * depth * taps else ""
        body += f"    {guard}{{\n      {move}\n    }}\n"
    body += f"    __syncthreads();\n    for (int rc_inner = 0; rc_inner < {depth}; ++rc_inner) {{\n"
    for tap in range(taps):
        for at in range(4 * places):
            place = (f"((((rc_inner * {window * line}) + {tap // window * line}) + ((int)threadIdx.x)) + "
                     f"{tap % window + at % places * half})")
            weight = f"((((((int)threadIdx.y) * 4) + {at // places}) * {depth * taps}) + ((rc_inner * {taps}) + {tap}))"
            body += (f"      compute[({at})] = (compute[({at})] + "
                     f"(pad_temp_shared[{place}] * kernel_shared[{weight}]));\n")
    body += "    }\n  }\n"
    for at in range(4 * places):
        channel = f"((((int)blockIdx.z) * 32) + ((((int)threadIdx.y) * 4) + {at // places}))"
        body += (f"  T_out[((({channel} * {side * side}) + (((int)blockIdx.y) * {side})) + "
                 f"(((int)threadIdx.x) + {at % places * half}))] = compute[({at})];\n")
    params = [("float", "T_out"), ("float", "x"), ("float", "w")]
    return entry(name, params, body, (1, side, cout // 32), (half, 8, 1))
