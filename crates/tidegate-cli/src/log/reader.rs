//! Reading on a thread of its own, so that whoever waits for lines can also notice an interrupt.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The longest line that is read, without its ending; also the size of a chunk.
pub(crate) const LINE_MAX: usize = 1 << 20;

/// Chunks that may wait between the threads. Together with the buffers in use they are all the memory that
/// reading takes.
const CHUNKS_WAITING: usize = 4;

/// What the reading thread hands on.
#[derive(Debug)]
pub(crate) enum Message {
    /// Whole lines.
    Lines(Chunk),
    /// A line longer than [`LINE_MAX`] was skipped; this is how it begins, and how many bytes it took.
    TooLong(Vec<u8>, u64),
    /// The input has ended.
    End,
    /// Reading failed; nothing follows.
    Failed(io::Error),
}

/// Some whole lines. The last line of the input may lack its ending.
#[derive(Debug)]
pub(crate) struct Chunk {
    buffer: Vec<u8>,
    filled: usize,
}

impl Chunk {
    /// The lines, endings included.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Reader {
    /// What has been read.
    pub(crate) messages: Receiver<Message>,
    spare: SyncSender<Vec<u8>>,
}

impl Reader {
    /// Starts to read. The thread ends with the input, or with the next chunk after the reader is dropped;
    /// it is not waited for, because it may be blocked in the input for ever.
    pub(crate) fn spawn(input: impl Read + Send + 'static) -> Self {
        let (sender, messages) = sync_channel(CHUNKS_WAITING);
        let (spare, spares) = sync_channel(CHUNKS_WAITING + 2);
        thread::spawn(move || {
            let last = match read_all(input, &sender, &spares) {
                Ok(()) => Message::End,
                Err(error) => Message::Failed(error),
            };
            // Nobody listens any more: then nobody needs to know.
            let _ = sender.send(last);
        });
        Self { messages, spare }
    }

    /// Gives a chunk's buffer back.
    pub(crate) fn recycle(&self, chunk: Chunk) {
        // A buffer too many is just freed.
        let _ = self.spare.try_send(chunk.buffer);
    }
}

fn read_all(
    mut input: impl Read,
    sender: &SyncSender<Message>,
    spares: &Receiver<Vec<u8>>,
) -> io::Result<()> {
    let mut buffer = vec![0; LINE_MAX + 1];
    // The beginning of a line whose end has not been read yet.
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            let head = buffer[..80].to_vec();
            let (skipped, rest) = skip_line(&mut input, &mut buffer)?;
            if sender.send(Message::TooLong(head, skipped)).is_err() {
                return Ok(());
            }
            // What follows the long line may hold whole lines already: send them below.
            let whole = memchr::memrchr(b'\n', &buffer[..rest]).map_or(0, |end| end + 1);
            filled = rest;
            if whole > 0 && !hand_on(&mut buffer, whole, &mut filled, sender, spares) {
                return Ok(());
            }
            continue;
        }
        let read = match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let new = filled..filled + read;
        filled = new.end;
        if let Some(end) = memchr::memrchr(b'\n', &buffer[new.clone()]) {
            let whole = new.start + end + 1;
            if !hand_on(&mut buffer, whole, &mut filled, sender, spares) {
                return Ok(());
            }
        }
    }
    if filled > 0 {
        let _ = sender.send(Message::Lines(Chunk { buffer, filled }));
    }
    Ok(())
}

/// Sends the first `whole` bytes, and keeps the rest in a new buffer. False if nobody listens.
fn hand_on(
    buffer: &mut Vec<u8>,
    whole: usize,
    filled: &mut usize,
    sender: &SyncSender<Message>,
    spares: &Receiver<Vec<u8>>,
) -> bool {
    let mut next = spares.try_recv().unwrap_or_else(|_| vec![0; LINE_MAX + 1]);
    let rest = &buffer[whole..*filled];
    next[..rest.len()].copy_from_slice(rest);
    *filled = rest.len();
    let chunk = Chunk {
        buffer: core::mem::replace(buffer, next),
        filled: whole,
    };
    sender.send(Message::Lines(chunk)).is_ok()
}

/// Reads over the rest of a line that has filled the buffer. Returns the line's length, ending included, and
/// how much of what follows now stands at the buffer's beginning.
fn skip_line(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<(u64, usize)> {
    let mut skipped = buffer.len() as u64;
    loop {
        let read = match input.read(buffer) {
            Ok(0) => return Ok((skipped, 0)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if let Some(end) = memchr::memchr(b'\n', &buffer[..read]) {
            buffer.copy_within(end + 1..read, 0);
            return Ok((skipped + end as u64 + 1, read - end - 1));
        }
        skipped += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives at most `step` bytes a read.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn collect(input: &[u8], step: usize) -> Vec<String> {
        let input: &'static [u8] = Vec::leak(input.to_vec());
        let reader = Reader::spawn(Slow(input, step));
        let mut lines = Vec::new();
        loop {
            match reader.messages.recv().expect("an end comes first") {
                Message::Lines(chunk) => {
                    let text = String::from_utf8(chunk.bytes().to_vec()).expect("is text");
                    lines.extend(text.lines().map(|line| match line.len() {
                        0..100 => line.to_owned(),
                        length => length.to_string(),
                    }));
                    reader.recycle(chunk);
                }
                Message::TooLong(head, _) => {
                    lines.push(format!("long {}", String::from_utf8_lossy(&head[..1])));
                }
                Message::End => return lines,
                Message::Failed(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn lines_survive_any_cut() {
        let text = b"one\ntwo\n\nfour\r\nlast";
        for step in 1..=text.len() {
            assert_eq!(
                collect(text, step),
                ["one", "two", "", "four", "last"],
                "{step}"
            );
        }
        assert!(collect(b"", 1).is_empty());
    }

    #[test]
    fn long_lines_are_skipped() {
        let long = |byte: u8, length| [vec![byte; length], b"\n".to_vec()].concat();
        let text = [
            b"one\n".to_vec(),
            long(b'x', 3 * LINE_MAX),
            b"two\nthree\n".to_vec(),
            long(b'y', LINE_MAX),
            long(b'z', LINE_MAX + 1),
            vec![b'w'; 2 * LINE_MAX + 1],
        ]
        .concat();
        let exact = LINE_MAX.to_string();
        for step in [4_096, 65_537, usize::MAX] {
            assert_eq!(
                collect(&text, step),
                ["one", "long x", "two", "three", &exact, "long z", "long w"],
                "{step}"
            );
        }
    }
}
