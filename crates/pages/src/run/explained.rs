//! How to read each part of the page, for whoever sees one for the first time.

/// The look of an explanation.
pub(super) const STYLE: &str = ".explained { max-width: 46em; margin: 4px 0 12px; padding: 4px 12px; border-left: 4px solid var(--accent); color: var(--quiet); }";

/// Returns what a part of the page shows, and what to make of it.
pub(super) fn how_to_read(part: &str) -> Option<&'static str> {
    Some(match part {
        "issues" => {
            "What costs time, the dearest first: the share of the run that a fix would save, the evidence, and what to change. \
             A run with hardly any I/O is not judged."
        }
        "bandwidth" => {
            "Bytes per second over the run. Shaded: the I/O phases that were found. Hatched: where the next one is expected. \
             Equal distances are a period. Drag over a stretch to zoom in."
        }
        "ranks" => {
            "A row for each process, time from left to right: the darker, the more bytes. Rows that differ show who does the work, and a slanted edge shows who is late."
        }
        "timeline" => {
            "What each process did when: reads, writes and other calls. Gaps are computing or waiting."
        }
        "time" => {
            "Where the time of all processes went, by kind of call. Much time in \"other calls\" means opens, closes and lookups."
        }
        "operations" => "How many calls there were of each kind.",
        "metadata" => {
            "Calls that move no data: opens, closes, stats, syncs. They load the metadata server of a parallel file system."
        }
        "sizes" => {
            "How large requests are. Each has a price of its own, so that many small ones are slower than few large ones."
        }
        "order" => {
            "Whether a request begins where the one before it ended. Storage is fast at that, and slow at jumps."
        }
        "mpi-io" => {
            "Calls of MPI-IO: collective ones let the library gather small pieces into large requests."
        }
        "mounts" => "Which file systems the bytes went to.",
        "counts" => "How many files were only read, only written, or both.",
        "files" => "The files by bytes moved, and who used them.",
        "rhythm" => {
            "The period: how far I/O phases are apart, how regular they are, and what else was considered. A confidence of 90 % is right nine times in ten."
        }
        "demand" => {
            "Writes that go on beside the program, and the bandwidth at which they would have been hidden."
        }
        "labels" => {
            "The kind of I/O in words, as `iotide categorize` gives them to each run of an archive, with the numbers they follow from."
        }
        "source" => "What was read, and how finely it has times.",
        "settings" => "How the period was looked for. Each line is an option of `iotide detect`.",
        "losses" => "What the trace is known to lack. None: every call is in it.",
        _ => return None,
    })
}
