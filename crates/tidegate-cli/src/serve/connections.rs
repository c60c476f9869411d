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
use tokio::net::{TcpListener, TcpStream};
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
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES);
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
                let (http, app, stop) = (http.clone(), app.clone(), stop.clone());
                tokio::spawn(async move {
                    telemetry::connection_opened();
                    connection(&http, stream, peer, app, stop).await;
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
    http: &http1::Builder,
    stream: TcpStream,
    peer: SocketAddr,
    app: Router,
    mut stop: watch::Receiver<bool>,
) {
    // Without it an answer may wait for an acknowledgement; not worth an error.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        app.clone().oneshot(request.map(Body::new))
    });
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
