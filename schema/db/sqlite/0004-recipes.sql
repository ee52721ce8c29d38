-- Plans that were imported, as recipes (cache/recipe.c): what to try on the poster's own kernels, and the digest that the plan must then have. Never served as they are:
-- a recipe that leads to that plan here becomes an entry and is removed, another is kept with the reason. `sha256` is over key, digest and body. Times are seconds since 1970.

CREATE TABLE recipe (
    id        INTEGER PRIMARY KEY,
    signature TEXT NOT NULL,
    device    TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    policy    TEXT NOT NULL,
    digest    TEXT NOT NULL,              -- of the plan's modules and launches, canonical names
    body      TEXT NOT NULL,              -- the recipe, JSON (rewrite/recipe.c)
    sha256    TEXT NOT NULL,
    origin    TEXT NOT NULL,              -- who imported it
    created   INTEGER NOT NULL,
    state     TEXT NOT NULL,              -- recipe: not tried yet; refused: tried, it does not lead to the plan
    reason    TEXT NOT NULL,              -- why it was refused
    tried     INTEGER NOT NULL,           -- when, or 0
    tries     INTEGER NOT NULL,           -- how often: whoever tries it may not live to say what came of it
    UNIQUE (signature, device, toolchain, policy)
);

CREATE TABLE owner (                      -- who posted a graph of this signature: its entries are theirs
    signature TEXT NOT NULL,
    uid       INTEGER NOT NULL,
    PRIMARY KEY (signature, uid)
) WITHOUT ROWID;
