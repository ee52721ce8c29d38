"""set: every comparison of every type into every type. In a file of its own for their number."""
from casefile import File, main
from compare import set_cases


def make():
    f = File("setcases")
    set_cases(f)
    return f


if __name__ == "__main__":
    main(make)
