-- Measurements are sealed as entries are (sign/seal.c). Services of before name none of these columns: they go on reading and writing, and what they write has no
-- seal. The sum of a row stays as it is for their sake: the seal is over all that it says, itself included.
ALTER TABLE dovetail_measure ADD COLUMN signer text NOT NULL DEFAULT '' CHECK (octet_length(signer) <= 128); -- or empty
ALTER TABLE dovetail_measure ADD COLUMN seal text NOT NULL DEFAULT '' CHECK (octet_length(seal) <= 512);     -- the signer's signature, or empty
ALTER TABLE dovetail_measure ADD COLUMN stamp bigint NOT NULL DEFAULT 0;                                     -- when it was signed, seconds since 1970, as its signer says

CREATE TABLE dovetail_graph (                -- graphs as they were posted, for hosts that plan them again
    space     text NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 64),
    digest    text NOT NULL CHECK (octet_length(digest) = 71), -- graph/graph.h: names and fills have no part in it
    body      text NOT NULL CHECK (octet_length(body) <= 22369624), -- the document: base64 of a zstd frame
    bytes     bigint NOT NULL CHECK (bytes BETWEEN 1 AND 268435456), -- of the document
    checksum  text NOT NULL CHECK (octet_length(checksum) = 71),
    created   timestamptz NOT NULL,
    used      timestamptz NOT NULL,          -- to a day
    PRIMARY KEY (space, digest)
);
CREATE INDEX dovetail_graph_used ON dovetail_graph (space, used);

ALTER TABLE dovetail_graph ENABLE ROW LEVEL SECURITY;
ALTER TABLE dovetail_graph FORCE ROW LEVEL SECURITY;
CREATE POLICY dovetail_graph_space ON dovetail_graph
    USING (space = current_setting('dovetail.namespace', true)) WITH CHECK (space = current_setting('dovetail.namespace', true));
