/* The graph document: what is taken, what is refused and where the pointer points, printing, digests, running out of
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/str.h"
#include "graph/graph.h"

static const char good[] =
    "{\"dovetail\": 1, \"name\": \"t\", \"extra\": [1],\n"
    " \"modules\": {\"m\": {\"cuda\": \"src\", \"options\": [\"-DX=1\"]}, \"p\": {\"ptx\": \".version 9.0\"}},\n"
    " \"buffers\": {\n"
    "  \"x\": {\"bytes\": 1024, \"role\": \"input\", \"fill\": {\"uniform\": [-1, 1], \"dtype\": \"f32\", \"seed\": "
    "7}},\n"
    "  \"w\": {\"bytes\": 64, \"role\": \"weight\", \"fill\": {\"zero\": true}},\n"
    "  \"ix\": {\"bytes\": 4, \"role\": \"input\", \"constant\": true, \"data\": \"AQIDBA==\"},\n"
    "  \"m::counter\": {\"bytes\": 4, \"role\": \"inout\"},\n"
    "  \"y/~\": {\"bytes\": 1024, \"role\": \"output\"}},\n"
    " \"launches\": [\n"
    "  {\"name\": \"z\", \"memset\": {\"buffer\": \"y/~\", \"offset\": 4, \"bytes\": 1020, \"value\": 255}},\n"
    "  {\"name\": \"k\", \"module\": \"m\", \"entry\": \"e\", \"grid\": [4, 2, 1], \"block\": [256, 1, 1], "
    "\"cluster\": [2, 1, 1],\n"
    "   \"shared\": 512, \"args\": [{\"buffer\": \"x\", \"offset\": 16}, {\"buffer\": \"w\"}, {\"i8\": -128}, "
    "{\"u64\": 18446744073709551615},\n"
    "    {\"f16\": 1.5}, {\"bf16\": -2}, {\"f32\": \"0x7fc00001\"}, {\"f64\": 0.1}, {\"i64\": -9223372036854775808}, "
    "{\"f32\": 16777217},\n"
    "    {\"bytes\": \"000102030405060708090a0b0c0d0e0f\", \"pointers\": [{\"at\": 8, \"buffer\": \"ix\", \"offset\": "
    "2}]},\n"
    "    {\"tensor_map\": {\"buffer\": \"x\", \"offset\": 16, \"tensorDataType\": \"CU_TENSOR_MAP_DATA_TYPE_FLOAT32\", "
    "\"tensorRank\": 2, "
    "\"globalDim\": [16, 12], \"globalStrides\": [64], \"boxDim\": [8, 4], \"swizzle\": 1}}]},\n"
    "  {\"copy\": {\"from\": {\"buffer\": \"x\"}, \"to\": {\"buffer\": \"y/~\", \"offset\": 960}, \"bytes\": 64}}]}";

static struct dt_graph *parse(const char *text)
{
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    if (dt_graph_parse(text, strlen(text), &g, &e) < 0)
        fail_msg("%s: %s: %s", dt_err_code(e.num), e.pointer ? e.pointer : "", e.detail);
    return g;
}

/* `good` with the first `from` replaced. */
static char *edit(const char *from, const char *to)
{
    const char *at = strstr(good, from);
    struct dt_str s = {0};
    if (!at)
        fail_msg("the test's document has no %s", from);
    dt_str_addn(&s, good, (size_t)(at - good));
    dt_str_add(&s, to);
    dt_str_add(&s, at + strlen(from));
    return dt_str_take(&s);
}

static void test_good(void **state)
{
    struct dt_graph *g = parse(good);
    assert_false(g->is_plan);
    assert_string_equal(g->name, "t");
    assert_int_equal(g->nmodule, 2);
    assert_int_equal(g->nbuffer, 5);
    assert_int_equal(g->nlaunch, 3);
    assert_string_equal(g->module[0].option[0], "-DX=1");
    assert_true(g->module[1].is_ptx);
    const struct dt_buffer *mv = &g->buffer[dt_graph_find_buffer(g, "m::counter")];
    assert_int_equal(mv->module, 0);
    assert_string_equal(mv->variable, "counter");
    assert_int_equal(g->buffer[0].module, -1);
    assert_memory_equal(g->buffer[2].fill.data, "\1\2\3\4", 4);
    assert_int_equal(g->launch[0].kind, DT_MEMSET);
    assert_int_equal(g->launch[0].value, 255);
    assert_int_equal(g->launch[0].dst_offset, 4);
    const struct dt_launch *k = &g->launch[1];
    assert_int_equal(k->grid[0], 4);
    assert_int_equal(k->cluster[0], 2);
    assert_int_equal(k->shared, 512);
    assert_int_equal(k->narg, 12);
    static const uint64_t bits[] = {
        0x80,      UINT64_MAX, 0x3e00, 0xc000, 0x7fc00001, 0x3fb999999999999a, 0x8000000000000000,
        0x4b800000 /* 16777217 rounds to even */};
    for (int i = 0; i < 8; i++)
        assert_true(k->arg[2 + i].kind == DT_ARG_SCALAR && k->arg[2 + i].bits == bits[i]);
    assert_int_equal(k->arg[10].nbytes, 16);
    assert_int_equal(k->arg[10].pointer[0].at, 8);
    assert_int_equal(k->arg[10].pointer[0].offset, 2);
    assert_int_equal(k->arg[11].kind, DT_ARG_TENSOR_MAP);
    assert_string_equal(g->launch[2].name, "launch2");
    assert_int_equal(g->launch[2].src_offset, 0);
    assert_int_equal(g->launch[2].dst_offset, 960);
    assert_int_equal(dt_graph_find_launch(g, "k"), 1);
    assert_int_equal(dt_graph_find_launch(g, "nope"), DT_NAME_NONE);
    dt_graph_free(g);
}

static const struct bad {
    const char *from, *to;
    int num;
    const char *pointer;
} bads[] = {
    {"\"dovetail\": 1, ", "", DT_E_GRAPH, "/dovetail"},
    {"\"dovetail\": 1", "\"dovetail\": 2", DT_E_GRAPH, "/dovetail"},
    {"\"name\": \"t\"", "\"name\": 5", DT_E_GRAPH, "/name"},
    {"\"modules\"", "\"moduels\"", DT_E_GRAPH, "/modules"},
    {"{\"cuda\": \"src\"", "{\"file\": \"k.cu\"", DT_E_GRAPH, "/modules/m/file"},
    {"\"cuda\": \"src\"", "\"cuda\": {\"file\": \"k.cu\"}", DT_E_GRAPH, "/modules/m/cuda/file"},
    {"\"cuda\": \"src\"", "\"cuda\": \"src\", \"ptx\": \"\"", DT_E_GRAPH, "/modules/m"},
    {"\"cuda\": \"src\"", "\"cuda\": \"\"", DT_E_GRAPH, "/modules/m/cuda"},
    {"\"cuda\": \"src\"", "\"cubin\": \"AA==\"", DT_E_UNSUPPORTED, "/modules/m/cubin"},
    {"\"options\": [\"-DX=1\"]", "\"options\": [5]", DT_E_GRAPH, "/modules/m/options/0"},
    {"\"p\": {\"ptx\"", "\"p::q\": {\"ptx\"", DT_E_GRAPH, "/modules/p::q"},
    {"\"bytes\": 1024", "\"bytes\": -1", DT_E_GRAPH, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": 0", DT_E_GRAPH, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": 1000000000000000", DT_E_TOO_LARGE, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": 1e15", DT_E_TOO_LARGE, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": 10000000000000000000", DT_E_TOO_LARGE, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": 100000000000000000000000", DT_E_TOO_LARGE, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": -100000000000000000000000", DT_E_GRAPH, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": 10.5", DT_E_GRAPH, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": \"1024\"", DT_E_GRAPH, "/buffers/x/bytes"},
    {"\"bytes\": 1024, ", "", DT_E_GRAPH, "/buffers/x/bytes"},
    {"\"bytes\": 1024", "\"bytes\": 1022", DT_E_GRAPH, "/buffers/x/fill"},
    {"\"bytes\": 64", "\"bytes\": 1073741825, \"constant\": true", DT_E_TOO_LARGE, "/buffers/w/bytes"},
    {"\"role\": \"input\"", "\"role\": \"scratch\"", DT_E_GRAPH, "/buffers/x/role"},
    {"\"role\": \"input\", \"fill\"", "\"fill\"", DT_E_GRAPH, "/buffers/x/role"},
    {"\"role\": \"output\"", "\"role\": \"output\", \"constant\": true", DT_E_GRAPH, "/buffers/y~1~0/constant"},
    {"\"constant\": true", "\"constant\": 1", DT_E_GRAPH, "/buffers/ix/constant"},
    {"AQIDBA==", "AQIDBAU=", DT_E_GRAPH, "/buffers/ix/data"},
    {"AQIDBA==", "AQID", DT_E_GRAPH, "/buffers/ix/data"},
    {"AQIDBA==", "AQIDBB==", DT_E_GRAPH, "/buffers/ix/data"},
    {"AQIDBA==", "AQ D BA==", DT_E_GRAPH, "/buffers/ix/data"},
    {"\"data\": \"AQIDBA==\"", "\"data\": \"AQIDBA==\", \"fill\": {\"zero\": true}", DT_E_GRAPH, "/buffers/ix"},
    {"[-1, 1]", "[-1]", DT_E_GRAPH, "/buffers/x/fill/uniform"},
    {"[-1, 1]", "[1, -1]", DT_E_GRAPH, "/buffers/x/fill/uniform"},
    {"[-1, 1]", "[-1, 1e39]", DT_E_GRAPH, "/buffers/x/fill/uniform"},
    {"[-1, 1]", "[-3e38, 3e38]", DT_E_GRAPH, "/buffers/x/fill/uniform"},
    {"[-1, 1], \"dtype\": \"f32\"", "[0, 257], \"dtype\": \"u8\"", DT_E_GRAPH, "/buffers/x/fill/uniform"},
    {"[-1, 1], \"dtype\": \"f32\"", "[0.5, 2], \"dtype\": \"u8\"", DT_E_GRAPH, "/buffers/x/fill/uniform"},
    {"\"dtype\": \"f32\"", "\"dtype\": \"f31\"", DT_E_GRAPH, "/buffers/x/fill/dtype"},
    {"\"seed\": 7", "\"seed\": -7", DT_E_GRAPH, "/buffers/x/fill/seed"},
    {"{\"zero\": true}", "{}", DT_E_GRAPH, "/buffers/w/fill"},
    {"{\"zero\": true}", "{\"zero\": false}", DT_E_GRAPH, "/buffers/w/fill/zero"},
    {"m::counter", "q::counter", DT_E_GRAPH, "/buffers/q::counter"},
    {"m::counter", "m::", DT_E_GRAPH, "/buffers/m::"},
    {"\"x\": {", "\"\": {", DT_E_GRAPH, "/buffers/"},
    {"\"x\": {", "\"a\\nb\": {", DT_E_GRAPH, "/buffers/a\nb"},
    {"\"buffer\": \"y/~\", \"offset\": 4", "\"buffer\": \"w\", \"offset\": 4", DT_E_GRAPH, "/launches/0/memset/bytes"},
    {"\"buffer\": \"y/~\", \"offset\": 4, \"bytes\": 1020", "\"buffer\": \"w\", \"bytes\": 4", DT_E_WEIGHT,
     "/launches/0/memset/buffer"},
    {"\"buffer\": \"y/~\", \"offset\": 4, \"bytes\": 1020", "\"buffer\": \"ix\", \"bytes\": 4", DT_E_WEIGHT,
     "/launches/0/memset/buffer"},
    {"\"to\": {\"buffer\": \"y/~\", \"offset\": 960}", "\"to\": {\"buffer\": \"w\"}", DT_E_WEIGHT,
     "/launches/2/copy/to/buffer"},
    {"\"to\": {\"buffer\": \"y/~\", \"offset\": 960}", "\"to\": {\"buffer\": \"x\", \"offset\": 63}", DT_E_GRAPH,
     "/launches/2/copy"},
    {"\"bytes\": 1020", "\"bytes\": 1021", DT_E_GRAPH, "/launches/0/memset/bytes"},
    {"\"bytes\": 1020", "\"bytes\": 0", DT_E_GRAPH, "/launches/0/memset/bytes"},
    {"\"value\": 255", "\"value\": 256", DT_E_GRAPH, "/launches/0/memset/value"},
    {"\"name\": \"z\"", "\"name\": \"k\"", DT_E_GRAPH, "/launches/1/name"},
    {"\"name\": \"z\"", "\"name\": \"launch2\"", DT_E_GRAPH, "/launches/2/name"},
    {"\"name\": \"k\", \"module\": \"m\"", "\"name\": \"k\", \"module\": \"mm\"", DT_E_GRAPH, "/launches/1/module"},
    {"\"name\": \"k\", \"module\": \"m\", ", "", DT_E_GRAPH, "/launches/1/module"},
    {"\"name\": \"k\", \"module\": \"m\"", "\"memset\": {}, \"module\": \"m\"", DT_E_GRAPH, "/launches/1"},
    {"\"entry\": \"e\", ", "", DT_E_GRAPH, "/launches/1/entry"},
    {"\"entry\": \"e\"", "\"entry\": \"e\", \"cooperative\": true", DT_E_UNSUPPORTED, "/launches/1/cooperative"},
    {"\"grid\": [4, 2, 1]", "\"grid\": [0, 2, 1]", DT_E_GRAPH, "/launches/1/grid/0"},
    {"\"grid\": [4, 2, 1]", "\"grid\": [4, -2, 1]", DT_E_GRAPH, "/launches/1/grid/1"},
    {"\"grid\": [4, 2, 1]", "\"grid\": [4, 65536, 1]", DT_E_LAUNCH, "/launches/1/grid/1"},
    {"\"grid\": [4, 2, 1]", "\"grid\": [4, 2]", DT_E_GRAPH, "/launches/1/grid"},
    {"\"grid\": [4, 2, 1]", "\"grid\": [3, 2, 1]", DT_E_LAUNCH, "/launches/1/cluster/0"},
    {"\"block\": [256, 1, 1]", "\"block\": [256, 8, 1]", DT_E_LAUNCH, "/launches/1/block"},
    {"\"shared\": 512", "\"shared\": -1", DT_E_GRAPH, "/launches/1/shared"},
    {"\"args\": [{\"buffer\": \"x\", \"offset\": 16}", "\"args\": [{\"buffer\": \"q\"}", DT_E_GRAPH,
     "/launches/1/args/0/buffer"},
    {"\"offset\": 16", "\"offset\": 1024", DT_E_GRAPH, "/launches/1/args/0/offset"},
    {"\"offset\": 16", "\"offset\": -4", DT_E_GRAPH, "/launches/1/args/0/offset"},
    {"{\"buffer\": \"w\"}", "{\"bufer\": \"w\"}", DT_E_GRAPH, "/launches/1/args/1"},
    {"{\"buffer\": \"w\"}", "{\"buffer\": \"w\", \"i32\": 1}", DT_E_GRAPH, "/launches/1/args/1"},
    {"{\"buffer\": \"w\"}", "5", DT_E_GRAPH, "/launches/1/args/1"},
    {"{\"i8\": -128}", "{\"i8\": -129}", DT_E_GRAPH, "/launches/1/args/2/i8"},
    {"{\"i8\": -128}", "{\"i8\": 128}", DT_E_GRAPH, "/launches/1/args/2/i8"},
    {"{\"i8\": -128}", "{\"u8\": -1}", DT_E_GRAPH, "/launches/1/args/2/u8"},
    {"{\"i8\": -128}", "{\"i8\": 1.5}", DT_E_GRAPH, "/launches/1/args/2/i8"},
    {"{\"i8\": -128}", "{\"i8\": true}", DT_E_GRAPH, "/launches/1/args/2/i8"},
    {"{\"i8\": -128}", "{\"i8\": \"0x100\"}", DT_E_GRAPH, "/launches/1/args/2/i8"},
    {"{\"i8\": -128}", "{\"i8\": \"0x\"}", DT_E_GRAPH, "/launches/1/args/2/i8"},
    {"{\"i8\": -128}", "{\"i8\": \"12\"}", DT_E_GRAPH, "/launches/1/args/2/i8"},
    {"{\"i8\": -128}", "{\"i64\": 9223372036854775808}", DT_E_GRAPH, "/launches/1/args/2/i64"},
    {"{\"f16\": 1.5}", "{\"f16\": 65520}", DT_E_GRAPH, "/launches/1/args/4/f16"},
    {"{\"f16\": 1.5}", "{\"f32\": 1e39}", DT_E_GRAPH, "/launches/1/args/4/f32"},
    {"\"000102030405", "\"00010203040g", DT_E_GRAPH, "/launches/1/args/10/bytes"},
    {"\"at\": 8", "\"at\": 9", DT_E_GRAPH, "/launches/1/args/10/pointers/0/at"},
    {"{\"at\": 8", "{\"at\": 7, \"buffer\": \"x\"}, {\"at\": 8", DT_E_GRAPH, "/launches/1/args/10/pointers/1/at"},
    {"\"offset\": 2}", "\"offset\": 4}", DT_E_GRAPH, "/launches/1/args/10/pointers/0/offset"},
    {"\"buffer\": \"x\", \"offset\": 16, \"tensorDataType\"", "\"buffer\": \"q\", \"offset\": 16, \"tensorDataType\"",
     DT_E_GRAPH, "/launches/1/args/11/tensor_map/buffer"},
    {"\"tensorDataType\": ", "\"tensorDataTyp\": ", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorDataType"},
    {"TYPE_FLOAT32\"", "TYPE_FLOAT33\"", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorDataType"},
    {"\"CU_TENSOR_MAP_DATA_TYPE_FLOAT32\"", "16", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorDataType"},
    {"\"CU_TENSOR_MAP_DATA_TYPE_FLOAT32\"", "\"FLOAT32\"", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorDataType"},
    {"\"CU_TENSOR_MAP_DATA_TYPE_FLOAT32\"", "null", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorDataType"},
    {"\"tensorRank\": 2", "\"tensorRank\": 0", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorRank"},
    {"\"tensorRank\": 2", "\"tensorRank\": 6", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorRank"},
    {"\"tensorRank\": 2", "\"rank\": 2", DT_E_GRAPH, "/launches/1/args/11/tensor_map/tensorRank"},
    {"\"tensorRank\": 2", "\"tensorRank\": 3", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim"},
    {"[16, 12]", "[16]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim"},
    {"[16, 12]", "[16, 0]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim/1"},
    {"[16, 12]", "[16, 4294967297]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim/1"},
    {"[16, 12]", "[16, 4294967296]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim"},
    {"[16, 12]", "[4294967296, 1]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim"},
    {"[16, 12]", "[16, 17]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim"},
    {"[16, 12]", "5", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim"},
    {"[64]", "[1099511627776]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalStrides/0"},
    {"[64]", "[1099511627760]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalDim"},
    {"[64]", "[64, 64]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalStrides"},
    {"[64]", "[-1]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/globalStrides/0"},
    {"[8, 4]", "[8, 257]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/boxDim/1"},
    {"[8, 4]", "[0, 4]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/boxDim/0"},
    {"\"swizzle\": 1", "\"swizzle\": 7", DT_E_GRAPH, "/launches/1/args/11/tensor_map/swizzle"},
    {"\"swizzle\": 1", "\"oobFill\": 2", DT_E_GRAPH, "/launches/1/args/11/tensor_map/oobFill"},
    {"\"swizzle\": 1", "\"interleave\": 1.5", DT_E_GRAPH, "/launches/1/args/11/tensor_map/interleave"},
    {"\"swizzle\": 1", "\"l2Promotion\": \"\"", DT_E_GRAPH, "/launches/1/args/11/tensor_map/l2Promotion"},
    {"\"swizzle\": 1", "\"elementStrides\": [1, 9]", DT_E_GRAPH, "/launches/1/args/11/tensor_map/elementStrides/1"},
    {"\"swizzle\": 1", "\"elementStrides\": 1", DT_E_GRAPH, "/launches/1/args/11/tensor_map/elementStrides"},
    {"\"launches\": [", "\"launches\": 5, \"l\": [", DT_E_GRAPH, "/launches"},
};

static void test_bad(void **state)
{
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        const struct bad *b = &bads[i];
        char *text = edit(b->from, b->to);
        struct dt_graph *g = NULL;
        struct dt_err e = {0};
        int r = dt_graph_parse(text, strlen(text), &g, &e);
        if (r != b->num || e.num != r || !e.pointer || strcmp(e.pointer, b->pointer) || !e.detail || !*e.detail || g)
            fail_msg("%s -> %s: %d (expected %d) at %s (expected %s): %s", b->from, b->to, r, b->num, e.pointer,
                     b->pointer, e.detail);
        dt_err_done(&e);
        free(text);
    }
}

static void test_bad_json(void **state)
{
    static const struct {
        const char *text, *detail;
    } cases[] = {
        {"", "line 1"},
        {"{\"dovetail\": 1,\n \"name\": }", "line 2, column 10"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
        {"{\"a\": \"\\u0000\"}", "line 1"},
        {"{\"a\": \"\xff\"}", "unable to decode byte 0xff"},
        {"{} x", "line 1"},
        {"{\"a\": 1e999}", "line 1"},
        {"{\"a\": 99999999999999999999, \"b\": }", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dt_graph *g = NULL;
        struct dt_err e = {0};
        assert_int_equal(dt_graph_parse(cases[i].text, strlen(cases[i].text), &g, &e), DT_E_JSON);
        if (!strstr(e.detail, cases[i].detail))
            fail_msg("%s: %s", cases[i].text, e.detail);
        dt_err_done(&e);
    }
    struct dt_graph *g = NULL;
    assert_int_equal(dt_graph_parse("{}\0", 3, &g, NULL), DT_E_JSON);
    assert_int_equal(dt_graph_parse("[]", 2, &g, NULL), DT_E_GRAPH);
}

static void test_many(void **state)
{
    struct dt_str s = {0};
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    dt_str_add(&s, "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {");
    for (int i = 0; i <= DT_MAX_BUFFERS; i++)
        dt_str_addf(&s, "%s\"b%d\": {\"bytes\": 1, \"role\": \"input\"}", i ? "," : "", i);
    dt_str_add(&s, "}, \"launches\": []}");
    assert_int_equal(dt_graph_parse(s.s, s.len, &g, &e), DT_E_TOO_LARGE);
    assert_string_equal(e.pointer, "/buffers");
    dt_err_done(&e);
    dt_str_done(&s);
    dt_str_add(&s, "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {");
    for (int i = 0; i < 5; i++)
        dt_str_addf(&s, "%s\"b%d\": {\"bytes\": 274877906944, \"role\": \"input\"}", i ? "," : "", i);
    dt_str_add(&s, "}, \"launches\": []}");
    assert_int_equal(dt_graph_parse(s.s, s.len, &g, &e), DT_E_TOO_LARGE);
    assert_string_equal(e.pointer, "/buffers/b4/bytes");
    dt_err_done(&e);
    dt_str_done(&s);
}

/* print(parse(print(parse(t)))) = print(parse(t)), as text and through the tree, and the digest stays. */
static void round_trip(const char *text)
{
    struct dt_graph *a = parse(text), *b, *c = NULL;
    json_t *ja = dt_graph_to_json(a);
    char *ta = json_dumps(ja, JSON_INDENT(1)), da[DT_SHA256_TEXT], db[DT_SHA256_TEXT];
    b = parse(ta);
    json_t *jb = dt_graph_to_json(b);
    assert_true(json_equal(ja, jb));
    assert_int_equal(a->is_plan, b->is_plan);
    assert_int_equal(dt_graph_from_json(ja, &c, NULL), 0);
    for (uint32_t i = 0; i < a->nlaunch; i++)
        for (uint32_t k = 0; k < a->launch[i].narg; k++)
            assert_true(a->launch[i].arg[k].bits == b->launch[i].arg[k].bits &&
                        a->launch[i].arg[k].bits == c->launch[i].arg[k].bits);
    assert_int_equal(dt_graph_digest(a, da, NULL), 0);
    assert_int_equal(dt_graph_digest(b, db, NULL), 0);
    assert_string_equal(da, db);
    free(ta);
    json_decref(ja);
    json_decref(jb);
    dt_graph_free(a);
    dt_graph_free(b);
    dt_graph_free(c);
}

/* of the four bytes that an ELF file begins with */
#define ELF_SHA "sha256:3bdbb4fe8397cd2b842430b39ccff01a8663c751945ef5e9a09e267fb8b1d359"
static const char plan[] =
    "{\"signature\": \"s\", \"baseline\": {\"time_us\": 4.5}, \"modules\": {\"f0\": {\"ptx\": \"x\", \"cubin\": "
    "\"f0VMRg==\", \"cubin_sha256\": \"" ELF_SHA "\"}},\n"
    " \"buffers\": {\"x\": {\"bytes\": 16, \"role\": \"input\", \"fill\": {\"uniform\": [0, 1], \"dtype\": \"f32\", "
    "\"seed\": 18446744073709551615}},\n"
    "  \"y\": {\"bytes\": 16, \"role\": \"output\"}, \"gone::v\": {\"bytes\": 4, \"role\": \"inout\"}},\n"
    " \"assumes\": {\"align\": {\"x\": 16}, \"constant\": {}, \"evidence\": \"proved\", \"machine_code\": "
    "{\"assembler\": \"nvJitLink\", \"version\": \"13.0.88\", \"arch\": \"sm_90\"}},\n"
    " \"scratch\": {\"t0\": {\"bytes\": 32, \"fill\": {\"zero\": true}}},\n"
    " \"launches\": [{\"name\": \"a+b\", \"module\": \"f0\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": [32,1,1], "
    "\"args\": [{\"buffer\": \"t0\"}, {\"f32\": \"0xff800000\"}, {\"f32\": -0.0}], \"stream\": 1, \"after\": []},\n"
    "  {\"name\": \"c\", \"copy\": {\"from\": {\"buffer\": \"t0\"}, \"to\": {\"buffer\": \"y\"}, \"bytes\": 4}, "
    "\"after\": [\"a+b\"], \"programmatic\": true}]}";

/* %s: members of the second launch; of the third */
static const char several[] =
    "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {\"x\": {\"bytes\": 8, \"role\": \"inout\"}}, \"launches\": ["
    "{\"name\": \"a\", \"memset\": {\"buffer\": \"x\", \"bytes\": 8, \"value\": 0}},"
    "{\"name\": \"b\", \"memset\": {\"buffer\": \"x\", \"bytes\": 4, \"value\": 1}%s},"
    "{\"name\": \"c\", \"memset\": {\"buffer\": \"x\", \"bytes\": 4, \"value\": 2}%s}]}";

/* What a graph on several streams says of its launches; on one stream there is nothing to say. */
static void test_streams(void **state)
{
    static const struct {
        const char *b, *c;
        bool streams, early;
        uint32_t stream, nafter; /* of the third */
    } cases[] = {
        {"", "", false, false, 0, 0},
        {", \"stream\": 1", ", \"after\": [\"b\"]", true, false, 0, 1},
        {", \"stream\": 1", ", \"stream\": 1, \"programmatic\": true", true, true, 1, 0},
        {"", ", \"after\": [\"a\"]", false, false, 0, 0},
        {"", ", \"programmatic\": true", true, true, 0, 0},
    };
    char text[1024], digest[5][DT_SHA256_TEXT];
    struct dt_err e = {0};
    for (size_t k = 0; k < 5; k++) {
        snprintf(text, sizeof text, several, cases[k].b, cases[k].c);
        round_trip(text);
        struct dt_graph *g = parse(text);
        const struct dt_launch *l = &g->launch[2];
        assert_false(g->is_plan);
        assert_int_equal(g->streams, cases[k].streams);
        assert_int_equal(l->stream, cases[k].stream);
        assert_int_equal(l->nafter, cases[k].nafter);
        assert_int_equal(l->programmatic, cases[k].early);
        assert_int_equal(dt_graph_digest(g, digest[k], &e), 0);
        /* a graph on the way to its plan: what a rewrite did is said as well */
        g->streams = false;
        json_t *o = dt_launch_to_json(g, l);
        assert_int_equal(json_is_true(json_object_get(o, "programmatic")), cases[k].early);
        assert_int_equal(json_integer_value(json_object_get(o, "stream")), cases[k].stream);
        assert_int_equal(json_array_size(json_object_get(o, "after")), cases[k].nafter);
        json_decref(o);
        dt_graph_free(g);
        for (size_t i = 0; i < k; i++) /* the fourth says no more than the first */
            assert_int_equal(!strcmp(digest[i], digest[k]), i == 0 && k == 3);
    }
}

static void test_round_trip(void **state)
{
    round_trip(good);
    round_trip(plan);
}

static void test_plan(void **state)
{
    struct dt_graph *g = parse(plan);
    assert_true(g->is_plan);
    assert_int_equal(g->buffer[dt_graph_find_buffer(g, "t0")].role, DT_SCRATCH);
    assert_true(g->buffer[0].fill.seed == UINT64_MAX);
    assert_int_equal(g->launch[0].stream, 1);
    assert_int_equal(g->launch[1].nafter, 1);
    assert_string_equal(g->launch[1].after[0], "a+b");
    assert_true(g->launch[1].programmatic);
    assert_non_null(g->assumes);
    assert_int_equal(g->module[0].cubin_len, 4);
    assert_memory_equal(g->module[0].cubin, "\177ELF", 4);
    dt_graph_free(g);
    static const struct {
        const char *from, *to, *pointer;
    } wrong[] = {
        {"\"after\": [\"a+b\"]", "\"after\": [\"c\"]", "/launches/1/after/0"},
        {"\"after\": [\"a+b\"]", "\"after\": [\"a\"]", "/launches/1/after/0"},
        {"\"stream\": 1", "\"stream\": 1024", "/launches/0/stream"},
        {"\"programmatic\": true", "\"programmatic\": 1", "/launches/1/programmatic"},
        {"{\"x\": 16}", "{\"x\": 12}", "/assumes/align/x"},
        {"{\"x\": 16}", "{\"q\": 16}", "/assumes/align/q"},
        {"\"constant\": {}", "\"constant\": {\"x\": \"sha256:00\"}", "/assumes/constant/x"},
        {"\"proved\"", "\"data-dependent\"", "/assumes/evidence"},
        {"\"t0\": {\"bytes\"", "\"y\": {\"bytes\"", "/scratch/y"},
        {"f0VMRg==", "f0VMRg=", "/modules/f0/cubin"},
        {"f0VMRg==", "f0VMRh==", "/modules/f0/cubin"},
        {"f0VMRg==", "", "/modules/f0/cubin"},
        {"f0VMRg==", "f0VMRgAA", "/modules/f0/cubin"},
        {"\"f0VMRg==\"", "7", "/modules/f0/cubin"},
        {"\"" ELF_SHA "\"", "7", "/modules/f0/cubin_sha256"},
        {"\"ptx\"", "\"cuda\"", "/modules/f0/cubin"},
        {"\"version\": \"13.0.88\"", "\"version\": 13", "/assumes/machine_code/version"},
        {", \"arch\": \"sm_90\"", "", "/assumes/machine_code/arch"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct dt_str s = {0};
        struct dt_err e = {0};
        const char *at = strstr(plan, wrong[i].from);
        assert_non_null(at);
        dt_str_addn(&s, plan, (size_t)(at - plan));
        dt_str_add(&s, wrong[i].to);
        dt_str_add(&s, at + strlen(wrong[i].from));
        struct dt_graph *none = NULL;
        assert_int_equal(dt_graph_parse(s.s, s.len, &none, &e), DT_E_GRAPH);
        assert_string_equal(e.pointer, wrong[i].pointer);
        dt_err_done(&e);
        dt_str_done(&s);
    }
}

/* The posted launches of a plan, with the modules that they and module variables use: their own before the plan's, and
 * none that only the plan uses. */
static void test_posted(void **state)
{
    static const char text[] =
        "{\"rewrites\": [], \"modules\": {\"f0\": {\"ptx\": \"fused\"}, \"m\": {\"ptx\": \"both\"}, \"k\": {\"ptx\": "
        "\"new\"}}, \"scratch\": {\"t0\": {\"bytes\": 32}},\n"
        " \"buffers\": {\"x\": {\"bytes\": 16, \"role\": \"inout\"}, \"gone::v\": {\"bytes\": 4, \"role\": "
        "\"inout\"}},\n"
        " \"launches\": [{\"name\": \"f\", \"module\": \"f0\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": "
        "[32,1,1], \"args\": []}],\n"
        " \"original\": {\"modules\": {\"k\": {\"ptx\": \"old\"}, \"gone\": {\"ptx\": \"variable\"}}, \"launches\": [\n"
        "  {\"name\": \"a\", \"module\": \"m\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": [32,1,1], \"args\": "
        "[{\"buffer\": \"x\"}]},\n"
        "  {\"name\": \"b\", \"module\": \"k\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": [32,1,1], \"args\": "
        "[{\"buffer\": \"x\"}]}]}}";
    static const char *const want[] = {"both", "old", "variable"};
    struct dt_graph *g = NULL;
    json_t *doc = NULL;
    assert_int_equal(dt_json_load(text, strlen(text), &doc, NULL), 0);
    json_t *posted = dt_plan_posted(doc);
    assert_non_null(posted);
    assert_int_equal(dt_graph_from_json(posted, &g, NULL), 0);
    assert_false(g->is_plan);
    assert_int_equal(g->nlaunch, 2);
    assert_int_equal(g->nmodule, 3);
    for (unsigned k = 0; k < 3; k++)
        assert_string_equal(g->module[k].source, want[k]);
    dt_graph_free(g);
    json_decref(posted);
    json_object_del(doc, "original"); /* nothing was changed */
    posted = dt_plan_posted(doc);
    assert_int_equal(json_array_size(json_object_get(posted, "launches")), 1);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(json_object_get(posted, "modules"), "f0"), "ptx")), "fused");
    json_decref(posted);
    json_decref(doc);
}

/* Refused by its length, before anything is decoded; a posted graph's is a member that nobody knows. */
static void test_machine_code(void **state)
{
    enum { LONG = 92 << 20 };
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    json_t *doc = NULL;
    assert_int_equal(dt_json_load(plan, strlen(plan), &doc, NULL), 0);
    char *text = malloc(LONG);
    assert_non_null(text);
    memset(text, 'A', LONG);
    json_t *m = json_object_get(json_object_get(doc, "modules"), "f0");
    json_object_set_new(m, "cubin", json_stringn_nocheck(text, LONG));
    free(text);
    assert_int_equal(dt_graph_from_json(doc, &g, &e), DT_E_TOO_LARGE);
    assert_string_equal(e.pointer, "/modules/f0/cubin");
    dt_err_done(&e);
    json_decref(doc);
    g = parse("{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"x\", \"cubin\": 7}}, \"buffers\": {\"x\": "
              "{\"bytes\": 16, \"role\": \"inout\"}}, \"launches\": ["
              "{\"memset\": {\"buffer\": \"x\", \"bytes\": 4, \"value\": 0}}]}");
    assert_null(g->module[0].cubin);
    dt_graph_free(g);
}

/* The same graph: other names, other order of members, other modules and buffers that nothing uses, another fill of an
 * input. */
static const char renamed[] =
    "{\"name\": \"other\", \"dovetail\": 1,\n"
    " \"buffers\": {\"out\": {\"role\": \"output\", \"bytes\": 1024}, \"unused\": {\"bytes\": 5, \"role\": "
    "\"input\"},\n"
    "  \"index\": {\"bytes\": 4, \"role\": \"input\", \"constant\": true, \"data\": \"AQIDBA==\"},\n"
    "  \"M::counter\": {\"bytes\": 4, \"role\": \"inout\"},\n"
    "  \"weights\": {\"bytes\": 64, \"role\": \"weight\"},\n"
    "  \"in\": {\"bytes\": 1024, \"role\": \"input\"}},\n"
    " \"modules\": {\"zz\": {\"ptx\": \"y\"}, \"M\": {\"options\": [\"-DX=1\"], \"cuda\": \"src\"}},\n"
    " \"launches\": [\n"
    "  {\"memset\": {\"buffer\": \"out\", \"offset\": 4, \"bytes\": 1020, \"value\": 255}},\n"
    "  {\"name\": \"kk\", \"module\": \"M\", \"entry\": \"e\", \"grid\": [4, 2, 1], \"block\": [256, 1, 1], "
    "\"cluster\": [2, 1, 1],\n"
    "   \"shared\": 512, \"args\": [{\"buffer\": \"in\", \"offset\": 16}, {\"buffer\": \"weights\", \"offset\": 0}, "
    "{\"i8\": \"0x80\"}, {\"u64\": \"0xffffffffffffffff\"},\n"
    "    {\"f16\": 1.5}, {\"bf16\": -2.0}, {\"f32\": \"0x7fc00001\"}, {\"f64\": 1e-1}, {\"i64\": "
    "-9223372036854775808}, {\"f32\": 16777216},\n"
    "    {\"bytes\": \"000102030405060708090A0B0C0D0E0F\", \"pointers\": [{\"at\": 8, \"buffer\": \"index\", "
    "\"offset\": 2}]},\n"
    "    {\"tensor_map\": {\"swizzle\": \"CU_TENSOR_MAP_SWIZZLE_32B\", \"tensorRank\": 2, \"buffer\": \"in\", "
    "\"tensorDataType\": 7, \"offset\": 16, "
    "\"globalDim\": [16, 12], \"globalStrides\": [64], \"boxDim\": [8, 4], \"elementStrides\": [1, 1]}}]},\n"
    "  {\"copy\": {\"bytes\": 64, \"from\": {\"buffer\": \"in\"}, \"to\": {\"buffer\": \"out\", \"offset\": 960}}}]}";

static void digest_of(const char *text, char out[DT_SHA256_TEXT])
{
    struct dt_graph *g = parse(text);
    assert_int_equal(dt_graph_digest(g, out, NULL), 0);
    dt_graph_free(g);
}

static void test_digest(void **state)
{
    static const struct {
        const char *from, *to;
    } changes[] = {
        {"\"cuda\": \"src\"", "\"cuda\": \"src \""},
        {"-DX=1", "-DX=2"},
        {"AQIDBA==", "AQIDBQ=="},
        {"\"bytes\": 64", "\"bytes\": 68"},
        {"\"weight\"", "\"input\""},
        {"\"value\": 255", "\"value\": 254"},
        {"\"entry\": \"e\"", "\"entry\": \"f\""},
        {"[4, 2, 1]", "[4, 4, 1]"},
        {"\"offset\": 16", "\"offset\": 20"},
        {"{\"f16\": 1.5}", "{\"f16\": 1.25}"},
        {"\"swizzle\": 1", "\"swizzle\": 2"},
        {"[16, 12]", "[16, 11]"},
        {"[64]", "[48]"},
        {"[8, 4]", "[8, 3]"},
        {"\"offset\": 16, \"tensor", "\"offset\": 0, \"tensor"},
        {"TYPE_FLOAT32\"", "TYPE_INT32\""},
        {"\"at\": 8", "\"at\": 0"},
        {"\"offset\": 960", "\"offset\": 956"},
        {"\"shared\": 512", "\"shared\": 0"},
        {"m::counter", "m::count"},
        {"{\"buffer\": \"w\"}", "{\"buffer\": \"x\"}"},
    };
    char a[DT_SHA256_TEXT], b[DT_SHA256_TEXT];
    digest_of(good, a);
    digest_of(renamed, b);
    assert_string_equal(a, b);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *text = edit(changes[i].from, changes[i].to);
        digest_of(text, b);
        if (!strcmp(a, b))
            fail_msg("%s -> %s does not change the digest", changes[i].from, changes[i].to);
        free(text);
    }
}

static void test_canon(void **state)
{
    struct dt_graph *g = parse(renamed);
    struct dt_canon c;
    assert_int_equal(dt_graph_canon(g, &c), 0);
    assert_int_equal(c.buffer[dt_graph_find_buffer(g, "out")], 0);
    assert_int_equal(c.buffer[dt_graph_find_buffer(g, "M::counter")], 1);
    assert_int_equal(c.buffer[dt_graph_find_buffer(g, "in")], 2);
    assert_int_equal(c.buffer[dt_graph_find_buffer(g, "weights")], 3);
    assert_int_equal(c.buffer[dt_graph_find_buffer(g, "index")], 4);
    assert_int_equal(c.buffer[dt_graph_find_buffer(g, "unused")], DT_NAME_NONE);
    assert_int_equal(c.module[0], DT_NAME_NONE);
    assert_int_equal(c.module[1], 0);
    assert_int_equal(c.launch[2], 2);
    dt_graph_free(g);
}

/* Allocation 1, 2, 3 … fails until everything succeeds: each failure is DT_E_NOMEM or a NULL, nothing leaks (under
 * ASan). jansson's own parser is left out: it asserts when it runs out of memory in the middle of a number
 * (2.14). */
static void test_out_of_memory(void **state)
{
    json_t *doc = NULL;
    assert_int_equal(dt_json_load(good, strlen(good), &doc, NULL), 0);
    json_set_alloc_funcs(dt_malloc, free);
    bool done = false;
    long n;
    for (n = 1; !done && n < 5000; n++) {
        struct dt_graph *g = NULL;
        struct dt_err e = {0};
        char digest[DT_SHA256_TEXT];
        dt_alloc_fail_after(n);
        int r = dt_graph_from_json(doc, &g, &e);
        json_t *j = r < 0 ? NULL : dt_graph_to_json(g);
        int d = j ? dt_graph_digest(g, digest, &e) : 0;
        dt_alloc_fail_after(0);
        done = r == 0 && j && d == 0;
        if (r < 0) {
            assert_int_equal(r, DT_E_NOMEM);
            assert_null(g);
        } else if (!done) {
            assert_true(!j || d == DT_E_NOMEM);
        }
        json_decref(j);
        dt_err_done(&e);
        dt_graph_free(g);
    }
    assert_true(done && n > 100);
    json_set_alloc_funcs(malloc, free);
    json_decref(doc);
}

/* The warnings of a document, one line each: "code pointer launch", and how many there are besides. */
static char *warned(const char *text)
{
    struct dt_graph *g = parse(text);
    struct dt_warnings w = {0};
    struct dt_str s = {0};
    json_t *doc = json_object(), *v;
    size_t i;
    dt_graph_warnings(g, &w);
    assert_int_equal(dt_warnings_put(&w, doc), 0);
    assert_true(json_is_array(json_object_get(doc, "warnings")));
    json_array_foreach (json_object_get(doc, "warnings"), i, v) {
        const char *launch = json_string_value(json_object_get(v, "launch"));
        assert_true(json_string_length(json_object_get(v, "message")) > 20);
        dt_str_addf(&s, "%s %s%s%s\n", json_string_value(json_object_get(v, "code")),
                    json_string_value(json_object_get(v, "pointer")), launch ? " " : "", launch ? launch : "");
    }
    if (json_object_get(doc, "warnings_left_out"))
        dt_str_addf(&s, "and %d\n", (int)json_integer_value(json_object_get(doc, "warnings_left_out")));
    dt_str_add(&s, "");
    json_decref(doc);
    dt_graph_free(g);
    return dt_str_take(&s);
}

/* `good` with one replacement: what it is warned of besides the member "extra" that it has itself. */
static void warns(const char *from, const char *to, const char *more)
{
    char *text = edit(from, to), *got = warned(text), want[256];
    snprintf(want, sizeof want, "unknown-member /extra\n%s", more);
    assert_string_equal(got, want);
    free(got);
    free(text);
}

static void test_unknown_members(void **state)
{
    warns("\"t\"", "\"t\"", "");
    warns("\"extra\": [1]", "\"extra\": 1, \"ckeck\": \"race\"", "unknown-member /ckeck\n");
    warns("\"options\": [", "\"flags\": 1, \"options\": [", "unknown-member /modules/m/flags\n");
    warns("{\"ptx\": \".version 9.0\"}", "{\"ptx\": \".version 9.0\", \"cubin\": \"\"}",
          "unknown-member /modules/p/cubin\n");
    warns("\"bytes\": 1024, \"role\": \"output\"", "\"bytes\": 1024, \"size\": 9, \"role\": \"output\"",
          "unknown-member /buffers/y~1~0/size\n");
    warns("\"seed\": 7", "\"seed\": 7, \"lo\": 3", "unknown-member /buffers/x/fill/lo\n");
    warns("{\"zero\": true}", "{\"zero\": true, \"seed\": 3}", "unknown-member /buffers/w/fill/seed\n");
    warns("\"value\": 255}", "\"value\": 255, \"dtype\": \"u8\"}", "unknown-member /launches/0/memset/dtype z\n");
    warns("\"value\": 255}}", "\"value\": 255}, \"grid\": [1, 1, 1]}", "unknown-member /launches/0/grid z\n");
    warns("\"shared\": 512", "\"smem\": 512", "unknown-member /launches/1/smem k\n");
    warns("{\"i8\": -128}", "{\"i8\": -128, \"offset\": 4}", "unknown-member /launches/1/args/2/offset k\n");
    warns("{\"buffer\": \"w\"}", "{\"buffer\": \"w\", \"ofset\": 4}", "unknown-member /launches/1/args/1/ofset k\n");
    warns("\"pointers\": [{", "\"pointer\": [], \"pointers\": [{\"to\": 1, ",
          "unknown-member /launches/1/args/10/pointer k\n"
          "unknown-member /launches/1/args/10/pointers/0/to k\n");
    warns("\"swizzle\": 1", "\"swizle\": 1", "unknown-member /launches/1/args/11/tensor_map/swizle k\n");
    warns("{\"from\": {", "{\"size\": 1, \"from\": {\"bytes\": 64, ",
          "unknown-member /launches/2/copy/size launch2\nunknown-member /launches/2/copy/from/bytes launch2\n");
    warns("\"to\": {", "\"to\": {\"at\": 0, ", "unknown-member /launches/2/copy/to/at launch2\n");
}

/* A document full of mistakes gets no answer larger than itself. */
static void test_many_warnings(void **state)
{
    struct dt_str s = {0};
    for (int k = 0; k < 5000; k++)
        dt_str_addf(&s, "\"m%d\": 1, ", k);
    dt_str_addf(&s, "\"%0*d\": 1, \"extra\"", 100000, 0);
    char *text = edit("\"extra\"", s.s), *got = warned(text);
    assert_true(!strncmp(got, "unknown-member /m0\n", 19));
    assert_non_null(strstr(got, "unknown-member /m19\nand 4982\n"));
    free(got);
    free(text);
    dt_str_done(&s);
    dt_str_addf(&s, "\"%0*d\": 1", 100000, 0);
    text = edit("\"extra\": [1]", s.s);
    got = warned(text);
    assert_string_equal(got, "unknown-member \n"); /* the object that has it */
    free(got);
    free(text);
    dt_str_done(&s);
}

static void test_no_output(void **state)
{
    static const char without[] =
        "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {\"x\": {\"bytes\": 64, \"role\": \"%s\"}}, \"launches\": "
        "[{\"name\": \"z\", \"memset\": {\"buffer\": \"x\", \"bytes\": 64, \"value\": 1}}]}";
    static const char *const role[] = {"intermediate", "output", "inout"};
    for (int k = 0; k < 3; k++) {
        char text[512], *got;
        snprintf(text, sizeof text, without, role[k]);
        got = warned(text);
        assert_string_equal(got, k ? "" : "no-output /buffers\n");
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_machine_code),
        cmocka_unit_test(test_posted),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_canon),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_unknown_members),
        cmocka_unit_test(test_many_warnings),
        cmocka_unit_test(test_no_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
