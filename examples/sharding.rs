//! Several processes share limits without a store between them: each key has one owner among them.
//!
//! ```text
//! cargo run --release --example sharding --features std
//! ```
//!
//! Starts four processes of this program on loopback. Each gets requests of the same clients, as behind a load
//! balancer, and asks the client's owner over TCP, unless it is that itself. `owner` says who that is, the same in
//! every process, and nobody had to agree on it. In the end the parent adds up what all of them let pass: for each
//! client exactly its limit.
//!
//! One question in flight a connection, and a lost owner ends it all: this shows the sharding, not how to write a
//! server. One that goes on when an owner is gone asks the owner among the others.

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::error::Error;
use core::net::Ipv4Addr;
use core::time::Duration;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, StdinLock, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use tidegate::{Clock, Map, Quota, TokenBucket, owner};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PROCESSES: usize = 4;
const CLIENTS: u64 = 60;
/// A day's; so nothing comes back while this runs.
const LIMIT: u64 = 20;
const REQUESTS: u64 = 3_000;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Outcome<()> {
    match std::env::args().nth(1).as_deref() {
        Some("member") => member(),
        _ => parent(),
    }
}

/// What a process knows of its group.
struct Shared {
    clients: Map<String, TokenBucket>,
    clock: Clock,
}

impl Shared {
    /// Decides for a client that this process owns.
    fn passes(&self, client: &str) -> bool {
        self.clients.check(client, self.clock.now()).is_ok()
    }
}

/// Answers the others' questions: a line with a client's name, and a letter back.
fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answers = stream.try_clone()?;
    for client in BufReader::new(stream).lines() {
        let answer: &[u8] = if shared.passes(&client?) {
            b"y\n"
        } else {
            b"n\n"
        };
        answers.write_all(answer)?;
    }
    Ok(())
}

/// A connection to another process, and what it has said.
struct Peer {
    questions: TcpStream,
    answers: Lines<BufReader<TcpStream>>,
}

impl Peer {
    fn connect(address: &str) -> Outcome<Self> {
        let questions = TcpStream::connect(address)?;
        questions.set_nodelay(true)?;
        questions.set_read_timeout(Some(PATIENCE))?;
        let answers = BufReader::new(questions.try_clone()?).lines();
        Ok(Self { questions, answers })
    }

    fn passes(&mut self, client: &str) -> Outcome<bool> {
        self.questions.write_all(format!("{client}\n").as_bytes())?;
        let answer = self.answers.next().ok_or("the owner is gone")??;
        Ok(answer == "y")
    }
}

fn next_line(lines: &mut Lines<StdinLock<'_>>) -> Outcome<String> {
    Ok(lines.next().ok_or("the parent is gone")??)
}

/// One of the processes.
fn member() -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let me = listener.local_addr()?.to_string();
    println!("{me}");
    let mut lines = std::io::stdin().lines();
    let members: Vec<String> = next_line(&mut lines)?
        .split(' ')
        .map(str::to_owned)
        .collect();

    let shared = Arc::new(Shared {
        clients: Map::new(TokenBucket::new(Quota::per_day(LIMIT))),
        clock: Clock::new(),
    });
    let served = Arc::clone(&shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&served);
            std::thread::spawn(move || serve(stream, &shared));
        }
    });

    let mut peers = HashMap::new();
    for member in members.iter().filter(|member| **member != me) {
        peers.insert(member.as_str(), Peer::connect(member)?);
    }
    let mut passed = BTreeMap::<String, u64>::new();
    let mut forwarded = 0;
    // Some order of the clients, another one in each process.
    let mut place = number_of(&me);
    for _ in 0..REQUESTS {
        place = place
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let client = format!("client-{}", (place >> 33) % CLIENTS);
        let owner = owner(&client, &members).ok_or("nobody is there")?;
        let passes = match peers.get_mut(owner.as_str()) {
            Some(peer) => {
                forwarded += 1;
                peer.passes(&client)?
            }
            None => shared.passes(&client),
        };
        *passed.entry(client).or_default() += u64::from(passes);
    }
    for (client, count) in passed {
        println!("{client} {count}");
    }
    println!("forwarded {forwarded}");
    // The others may have questions yet.
    next_line(&mut lines)?;
    for (client, _) in shared.clients.iter(shared.clock.now()) {
        assert_eq!(
            owner(&client, &members),
            Some(&me),
            "decided for somebody else's client"
        );
    }
    println!("owns {}", shared.clients.len());
    Ok(())
}

/// A number for a name, to start from.
fn number_of(address: &str) -> u64 {
    address
        .bytes()
        .fold(1, |number, byte| number * 31 % 1_000_003 + u64::from(byte))
}

/// A process, seen from its parent. It ends when its input does.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start() -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("member")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = child.stdout.take().ok_or("no output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output).lines(),
        })
    }

    fn line(&mut self) -> Outcome<String> {
        Ok(self.output.next().ok_or("a process has ended")??)
    }

    /// The next line, as a word and a number.
    fn count(&mut self) -> Outcome<(String, u64)> {
        let line = self.line()?;
        let (word, number) = line.split_once(' ').ok_or("not a word and a number")?;
        Ok((word.to_owned(), number.parse()?))
    }
}

fn parent() -> Outcome<()> {
    let begun = Instant::now();
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        processes.push(Process::start()?);
    }
    let mut members = Vec::new();
    for process in &mut processes {
        members.push(process.line()?);
    }
    let group = members.join(" ") + "\n";
    for process in &mut processes {
        process.input.write_all(group.as_bytes())?;
    }

    let mut passed = BTreeMap::<String, u64>::new();
    let mut forwarded = 0;
    for process in &mut processes {
        loop {
            let (word, count) = process.count()?;
            if word == "forwarded" {
                forwarded += count;
                break;
            }
            *passed.entry(word).or_default() += count;
        }
    }
    println!("{PROCESSES} processes, {CLIENTS} clients, {LIMIT} requests a day each.\n");
    for (process, member) in processes.iter_mut().zip(&members) {
        process.input.write_all(b"end\n")?;
        let (_, owned) = process.count()?;
        println!("  {member} owns {owned} clients");
        if !process.child.wait()?.success() {
            return Err("a process has failed".into());
        }
    }

    let sent = PROCESSES as u64 * REQUESTS;
    let through: u64 = passed.values().sum();
    println!(
        "\nOf {sent} requests {forwarded} were asked of another process, and {through} passed, in {} ms.",
        begun.elapsed().as_millis()
    );
    let wrong: Vec<_> = passed
        .iter()
        .filter(|(_, count)| **count != LIMIT)
        .collect();
    if passed.len() as u64 != CLIENTS || !wrong.is_empty() {
        return Err(format!("not everybody got {LIMIT}: {wrong:?}").into());
    }
    println!(
        "Each of {CLIENTS} clients got {LIMIT}, its limit; had each process counted for itself, up to {}.",
        PROCESSES as u64 * LIMIT
    );
    Ok(())
}
