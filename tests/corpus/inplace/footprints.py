def footprints(g):
    for name, threads, reads, writes in (("set", 128, "x", "h"), ("increment", 128, "h", "h"), ("read", 256, "h", "y"),
                                         ("again", 64, "x", "h")):
        l = g.launch(name, 2048 // threads)
        for b in range(2048 // threads):
            l.read(b, reads, b * threads, (b + 1) * threads)
            l.write(b, writes, b * threads, (b + 1) * threads)
