//! Logs and archives larger than anyone hands out: `cargo xtask large-log`, `cargo xtask large-archive`.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::Outcome;

/// How many records a rank has; each rank's are one stream, as Darshan writes them.
const RECORDS_PER_RANK: u64 = 64;
const HEADER_LEN: u64 = 1328;
const N_SLOTS: usize = 64;
const POSIX_SLOT: usize = 1;

/// `cargo xtask large-log RECORDS FILE`: a log of Darshan 3.41 in which every record is of a file of its own.
pub fn log(args: &[String]) -> Result<Outcome, String> {
    let usage = "usage: cargo xtask large-log RECORDS FILE";
    let [n_records, path] = args else { return Err(usage.into()) };
    let n_records = n_records.parse().map_err(|_| usage)?;
    write_log(Path::new(path), n_records, 77).map_err(|error| format!("{path}: {error}"))?;
    Ok(Outcome::Good)
}

/// `cargo xtask large-archive LOGS RECORDS DIR`: an archive of such logs.
pub fn archive(args: &[String]) -> Result<Outcome, String> {
    let usage = "usage: cargo xtask large-archive LOGS RECORDS DIR";
    let [n_logs, n_records, dir] = args else { return Err(usage.into()) };
    let (n_logs, n_records): (u64, u64) =
        (n_logs.parse().map_err(|_| usage)?, n_records.parse().map_err(|_| usage)?);
    for i in 0..n_logs {
        let folder = Path::new(dir).join(format!("{:04}", i / 1000));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let path = folder.join(format!("job{i:06}.darshan"));
        // Sizes differ, and every hundredth application is the same.
        write_log(&path, 1 + (n_records + i) % (2 * n_records), i as i64)
            .map_err(|error| error.to_string())?;
    }
    Ok(Outcome::Good)
}

fn write_log(path: &Path, n_records: u64, job_id: i64) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&vec![0; HEADER_LEN as usize])?;
    let n_procs = n_records.div_ceil(RECORDS_PER_RANK);
    pack(&mut out, &job(n_procs as i64, job_id))?;
    let names_at = out.stream_position()?;
    let mut names = ZlibEncoder::new(&mut out, Compression::fast());
    for id in 0..n_records {
        names.write_all(&record_id(id).to_le_bytes())?;
        let (rank, file) = (id / RECORDS_PER_RANK, id % RECORDS_PER_RANK);
        write!(names, "/scratch/project/user/run-{job_id}/output/step-{file:04}/rank-{rank:07}.dat\0")?;
    }
    names.finish()?;
    let posix_at = out.stream_position()?;
    for rank in 0..n_procs {
        let first = rank * RECORDS_PER_RANK;
        let records: Vec<u8> = (first..n_records.min(first + RECORDS_PER_RANK))
            .flat_map(|id| posix_record(id, rank as i64))
            .collect();
        pack(&mut out, &records)?;
    }
    let end = out.stream_position()?;
    let mut maps = [(0, 0); N_SLOTS];
    let mut versions = [0_u32; N_SLOTS];
    (maps[POSIX_SLOT], versions[POSIX_SLOT]) = ((posix_at, end - posix_at), 4);
    out.seek(SeekFrom::Start(0))?;
    out.write_all(b"3.41\0\0\0\0")?;
    out.write_all(&6_567_223_u64.to_le_bytes())?;
    // zlib, and no module ran out of memory.
    out.write_all(&[0; 16])?;
    for word in [names_at, posix_at - names_at].into_iter().chain(maps.into_iter().flat_map(|(a, b)| [a, b]))
    {
        out.write_all(&word.to_le_bytes())?;
    }
    for version in versions {
        out.write_all(&version.to_le_bytes())?;
    }
    out.flush()
}

fn pack(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    let mut packer = ZlibEncoder::new(out, Compression::fast());
    packer.write_all(bytes)?;
    packer.finish().map(|_| ())
}

fn job(n_procs: i64, job_id: i64) -> Vec<u8> {
    let start_s = 1_600_000_000;
    let words = [1000 + job_id % 100, start_s, 0, start_s + 3600, 0, n_procs, job_id];
    let mut job: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    job.resize(job.len() + 1024, 0);
    job.extend(format!("./app-{} -n {n_procs}\nlustre\t/scratch", job_id % 100).as_bytes());
    job
}

/// Spreads numbers as a hash would.
fn record_id(id: u64) -> u64 {
    (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// 16 MiB in writes of 1 MiB, at some time of the hour.
fn posix_record(id: u64, rank: i64) -> Vec<u8> {
    let mut ints = [0_i64; 69];
    let jitter = (record_id(id) >> 40) as f64 / (1 << 24) as f64;
    let step = (id % RECORDS_PER_RANK) as f64;
    // OPENS, WRITES, BYTES_WRITTEN, MAX_BYTE_WRITTEN, CONSEC_WRITES, SEQ_WRITES; one file in 16 is not whole.
    let bytes = if id.is_multiple_of(16) { 12 << 20 } else { 16 << 20 };
    (ints[0], ints[4], ints[15], ints[17], ints[19], ints[21]) = (1, 16, bytes, bytes - 1, 15, 15);
    let start = 10.0 + 55.0 * step + jitter;
    let mut floats = [0.0; 17];
    // OPEN, WRITE and CLOSE begin; the same end; time in writes and in metadata.
    (floats[0], floats[2], floats[3]) = (start - 0.01, start, start + 2.0 + jitter);
    (floats[4], floats[6], floats[7]) = (start, start + 2.0 + jitter, start + 2.1 + jitter);
    (floats[9], floats[10]) = (1.5 + jitter, 0.02);
    let head = [record_id(id) as i64, rank];
    let ints = head.iter().chain(&ints).flat_map(|word| word.to_le_bytes());
    ints.chain(floats.iter().flat_map(|float| float.to_le_bytes())).collect()
}
