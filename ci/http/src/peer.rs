//! The Node process of the other server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Ends with this value; and by itself when this process ends in any way, since that closes its standard input.
pub struct Peer {
    process: Child,
    pub port: u16,
}

impl Peer {
    pub fn start(node: &str, script: &str) -> Result<Self, String> {
        let mut process = Command::new(node)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{node} does not start: {error}"))?;
        let stdout = process.stdout.take().ok_or("no output from the peer")?;
        let mut peer = Self { process, port: 0 };
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| format!("{script}: {error}"))?;
        peer.port = line
            .trim()
            .parse()
            .map_err(|_| format!("{script} printed '{}' instead of its port", line.trim()))?;
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
