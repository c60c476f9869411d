//! Connections: how many, and how long a slow client may take.

use core::net::SocketAddr;
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use super::telemetry;

/// How many connections there may be; more wait to be accepted.
const CONNECTIONS: u32 = 1_024;

/// How long a client may take to send the head of a request, the pause before it included.
const HEAD: Duration = Duration::from_secs(30);

/// How large the head of a request may be, in bytes; beyond, hyper answers 431.
const HEAD_BYTES: usize = 32 << 10;

/// How long a connection may last: whoever never reads what was answered goes then too.
const LIFETIME: Duration = Duration::from_secs(600);

/// How long requests under way may still take when the connection is to end.
const GRACE: Duration = Duration::from_secs(5);

/// Serves until `stop` changes, and then lets the requests under way end.
pub(crate) async fn serve(listener: TcpListener, app: Router, mut stop: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS as usize));
    loop {
        let next = async {
            // It is never closed.
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            _ = stop.changed() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Without it an answer may wait for an acknowledgement; not worth an error.
                let _ = stream.set_nodelay(true);
                let (app, stop) = (app.clone(), stop.clone());
                tokio::spawn(async move {
                    telemetry::connection_opened();
                    connection(stream, peer, app, stop).await;
                    telemetry::connection_closed();
                    drop(permit);
                });
            }
            Err(error) => {
                eprintln!("error: cannot accept a connection: {error}");
                // Out of file descriptors, most likely: some will be closed.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    // All connections have ended when all of the room is free.
    let _ = tokio::time::timeout(2 * GRACE, room.acquire_many(CONNECTIONS)).await;
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: SocketAddr,
    app: Router,
    mut stop: watch::Receiver<bool>,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        app.clone().oneshot(request.map(Body::new))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // What goes wrong here is the client's: it has gone, or sent what is no HTTP, and hyper has answered.
        _ = connection.as_mut() => return,
        () = tokio::time::sleep(LIFETIME) => {}
        _ = stop.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(GRACE, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::Instant;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// A connection in memory, so that the clock, which leaps to the next timer when there is nothing to do, does not
    /// leap while something is under way.
    fn connected(body: &'static str) -> (DuplexStream, watch::Sender<bool>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (stop, stopped) = watch::channel(false);
        let app = Router::new().route("/", get(move || async move { body }));
        let peer = "192.0.2.1:4711".parse().unwrap();
        tokio::spawn(connection(theirs, peer, app, stopped));
        (ours, stop)
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_to_ask_is_left() {
        for sent in [&b""[..], b"GET / HTTP/1.1\r\nhost: "] {
            let (mut stream, _stop) = connected("");
            let begun = Instant::now();
            stream.write_all(sent).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(!answer.starts_with(b"HTTP/1.1 200"));
            let took = begun.elapsed();
            assert!((HEAD..2 * HEAD).contains(&took), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_reads_is_left() {
        let (mut stream, _stop) = connected(Box::leak("x".repeat(1 << 20).into_boxed_str()));
        let begun = Instant::now();
        // Asks until there is no room for another answer, nor for another question.
        while stream.write_all(REQUEST).await.is_ok() {}
        let took = begun.elapsed();
        assert!((LIFETIME..LIFETIME + 2 * GRACE).contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_stays_for_long_is_asked_to_come_again() {
        let (mut stream, _stop) = connected("hello");
        let begun = Instant::now();
        let mut answer = [0; 1_024];
        while stream.write_all(REQUEST).await.is_ok()
            && stream.read(&mut answer).await.is_ok_and(|bytes| bytes > 0)
        {
            assert!(answer.starts_with(b"HTTP/1.1 200"));
            tokio::time::sleep(HEAD / 2).await;
        }
        let took = begun.elapsed();
        assert!((LIFETIME..LIFETIME + HEAD).contains(&took), "{took:?}");
    }
}
