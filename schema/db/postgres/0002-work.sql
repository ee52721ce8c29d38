-- The queue of plans to make again, by graph, device and toolchain: what 0001 calls dovetail_queue has no toolchain, and wants a
-- signature, which nobody knows before the graph has been compiled for the new device. No service ever put a row into that; it stays, since
-- services of before name it.

CREATE TABLE dovetail_work (
    space     text NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 64),
    target    text NOT NULL CHECK (octet_length(target) = 71), -- SHA-256 over device and toolchain (queue.c): the key stays narrow
    graph     text NOT NULL CHECK (octet_length(graph) = 71),  -- digest of the graph as it was posted
    device    text NOT NULL CHECK (octet_length(device) BETWEEN 1 AND 200),
    rank      bigint NOT NULL,               -- more comes first
    reason    text NOT NULL CHECK (octet_length(reason) <= 200),
    note      text NOT NULL CHECK (octet_length(note) <= 4096), -- JSON, or empty
    state     text NOT NULL CHECK (state IN ('waiting', 'parked', 'done')), -- done: nobody makes it again, for a month
    tries     integer NOT NULL,              -- how often it was claimed and not given back
    failure   text NOT NULL CHECK (octet_length(failure) <= 1000), -- why it failed last
    token     bigint NOT NULL,
    due       timestamptz NOT NULL,          -- not before; of one that is done: since when
    expires   timestamptz NOT NULL,          -- of its lease
    seen      timestamptz NOT NULL,          -- when a host last asked for it
    PRIMARY KEY (space, target, graph)
);
CREATE INDEX dovetail_work_tries ON dovetail_work (space, target, state, tries);
CREATE INDEX dovetail_work_next ON dovetail_work (space, target, state, rank DESC, graph);
CREATE INDEX dovetail_work_seen ON dovetail_work (space, seen);

ALTER TABLE dovetail_work ENABLE ROW LEVEL SECURITY;
ALTER TABLE dovetail_work FORCE ROW LEVEL SECURITY;
CREATE POLICY dovetail_work_space ON dovetail_work
    USING (space = current_setting('dovetail.namespace', true)) WITH CHECK (space = current_setting('dovetail.namespace', true));
