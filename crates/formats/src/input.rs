//! Where bytes come from: a file that can be read at any place, a stream that passes once, or a directory.

use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::{ReadError, gzip};

/// How long a named pipe may take to have a writer.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);

/// An opened source and its first bytes.
pub(crate) struct Input {
    name: PathBuf,
    head: Vec<u8>,
    body: Body,
    /// Filled if the source proves to be cut or damaged below the level of its format.
    trouble: Option<Arc<OnceLock<String>>>,
}

enum Body {
    File(Arc<File>),
    /// Bytes after the head.
    Stream(Box<dyn Read + Send>),
    Directory,
}

impl Input {
    /// How many first bytes are looked at to tell the format.
    pub(crate) const HEAD: usize = 64 << 10;

    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |cause| ReadError::Io { path: path.to_path_buf(), cause };
        let mut file = iotide_private::open_to_read(path, PIPE_PATIENCE).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Ok(Self {
                name: path.to_path_buf(),
                head: Vec::new(),
                body: Body::Directory,
                trouble: None,
            });
        }
        if !metadata.is_file() {
            return Self::from_read(path, Box::new(file));
        }
        let head = read_head(path, &mut file)?;
        Ok(Self { name: path.to_path_buf(), head, body: Body::File(Arc::new(file)), trouble: None })
    }

    pub(crate) fn from_read(name: &Path, mut read: Box<dyn Read + Send>) -> Result<Self, ReadError> {
        let head = read_head(name, &mut read)?;
        Ok(Self { name: name.to_path_buf(), head, body: Body::Stream(read), trouble: None })
    }

    /// A source that is still being written: takes no more of it than `is_enough`.
    pub(crate) fn from_live(
        name: &Path,
        mut read: Box<dyn Read + Send>,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, ReadError> {
        let mut head = Vec::new();
        while head.len() < Self::HEAD && !is_enough(&head) {
            let had = head.len();
            head.resize(Self::HEAD, 0);
            let got = read.read(&mut head[had..]);
            head.truncate(had + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) if head.is_empty() => return Err(ReadError::Empty { path: name.to_path_buf() }),
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(ReadError::Io { path: name.to_path_buf(), cause }),
            }
        }
        Ok(Self { name: name.to_path_buf(), head, body: Body::Stream(read), trouble: None })
    }

    /// The text of a compressed source, read as if it were not compressed.
    pub(crate) fn unzipped(self) -> Result<Self, ReadError> {
        let name = self.name.clone();
        let gunzip = gzip::Gunzip::new(self.into_read());
        let trouble = gunzip.trouble();
        Ok(Self { trouble: Some(trouble), ..Self::from_read(&name, Box::new(gunzip))? })
    }

    /// Where it will stand, once all was read, that the source was cut or damaged below the level of its format.
    pub(crate) fn trouble(&self) -> Option<Arc<OnceLock<String>>> {
        self.trouble.clone()
    }

    /// Whether its name is enough to read all of it again.
    pub(crate) fn can_be_reopened(&self) -> bool {
        self.file().is_some() || (self.trouble.is_some() && self.name.is_file())
    }

    /// Returns its name in messages: its path, if it has one.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Its first bytes, [`Input::HEAD`] of them unless it is shorter.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Its path, if it is a directory.
    pub(crate) fn directory(&self) -> Option<&Path> {
        matches!(self.body, Body::Directory).then_some(self.name.as_path())
    }

    /// The file behind it, to be read at any place; `None` for a stream or a directory.
    pub(crate) fn file(&self) -> Option<&Arc<File>> {
        match &self.body {
            Body::File(file) => Some(file),
            Body::Stream(_) | Body::Directory => None,
        }
    }

    /// All of its bytes in order. A directory has none.
    pub(crate) fn into_read(self) -> Box<dyn Read + Send> {
        match self.body {
            Body::File(file) => Box::new(FileAt::new(file, 0)),
            Body::Stream(rest) => Box::new(Cursor::new(self.head).chain(rest)),
            Body::Directory => Box::new(io::empty()),
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Input").field(&self.name).finish()
    }
}

fn read_head(path: &Path, read: &mut impl Read) -> Result<Vec<u8>, ReadError> {
    let mut head = Vec::new();
    read.take(Input::HEAD as u64)
        .read_to_end(&mut head)
        .map_err(|cause| ReadError::Io { path: path.to_path_buf(), cause })?;
    if head.is_empty() {
        return Err(ReadError::Empty { path: path.to_path_buf() });
    }
    Ok(head)
}

/// A file read from some place on. Several of these may share one file: each seeks before it reads.
pub(crate) struct FileAt {
    file: Arc<File>,
    at: u64,
}

impl FileAt {
    pub(crate) fn new(file: Arc<File>, at: u64) -> Self {
        Self { file, at }
    }
}

impl Read for FileAt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.file).seek(SeekFrom::Start(self.at))?;
        let n = (&*self.file).read(buffer)?;
        self.at += n as u64;
        Ok(n)
    }
}
