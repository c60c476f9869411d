//! A server that is reached by TLS alone.

#![cfg(feature = "tls")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Server, free_port};
use tidegate_redis::{ErrorKind, RedisStore};

const EXTENSIONS: &str = "subjectAltName = IP:127.0.0.1";

fn openssl(folder: &Path, arguments: &str) {
    let run = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl must be installed: ci/redis.sh does that");
    assert!(run.status.success(), "{run:?}");
}

/// An authority of the test's own, and a certificate for loopback by it.
fn certify(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        folder,
        &format!(
            "req -x509 {key} -keyout authority.key -out authority.pem -days 2 -subj /CN=authority"
        ),
    );
    openssl(
        folder,
        &format!("req {key} -keyout server.key -out server.csr -subj /CN=server"),
    );
    std::fs::write(folder.join("extensions"), EXTENSIONS).unwrap();
    openssl(
        folder,
        "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -extfile extensions \
         -out server.pem",
    );
}

fn start(folder: &Path) -> (Server, String) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let port = free_port().to_string();
    let server = Server::start_with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &path("server.pem"),
        "--tls-key-file",
        &path("server.key"),
        "--tls-ca-cert-file",
        &path("authority.pem"),
        "--tls-auth-clients",
        "no",
    ]);
    (server, format!("rediss://127.0.0.1:{port}/"))
}

/// In a process that trusts the test's authority, as a system would.
#[test]
#[ignore = "needs redis-server and openssl: ci/redis.sh"]
fn limits_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let (_server, url) = start(folder.path());
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.pop();
    let program = program.join("examples").join("several_processes");
    let run = |authority: &str| {
        Command::new(&program)
            .args([&url, "bucket", "100", "200"])
            .env("SSL_CERT_FILE", folder.path().join(authority))
            // An end is as good as a line.
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let trusting = run("authority.pem");
    assert!(trusting.status.success(), "{trusting:?}");
    assert_eq!(String::from_utf8_lossy(&trusting.stdout), "ready\n100\n");
    // Somebody else's is an error, and nothing worse.
    let wary = tempfile::tempdir().unwrap();
    certify(wary.path());
    let wary = run(wary.path().join("authority.pem").to_str().unwrap());
    assert_eq!(wary.status.code(), Some(1), "{wary:?}");
}

#[tokio::test]
#[ignore = "needs redis-server and openssl: ci/redis.sh"]
async fn a_certificate_that_nobody_trusts() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let (_server, url) = start(folder.path());
    let store = RedisStore::builder(&url).unwrap().connect().await;
    assert_eq!(store.unwrap_err().kind(), ErrorKind::Connection);
}
