//! A network that can be cut.

#![allow(unreachable_pub, reason = "this is a part of tests")]

use core::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::common::Server;

/// Between the store and the server: what becomes of what is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Works,
    /// Connections are taken, and nothing is ever answered.
    Swallows,
    /// Connections are refused, and those that there were are cut.
    Refuses,
}

pub struct Proxy {
    port: u16,
    pub network: watch::Sender<Network>,
}

impl Proxy {
    pub async fn start(server: &Server) -> Self {
        let (network, state) = watch::channel(Network::Works);
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(Self::serve(listener, port, server, state));
        Self { port, network }
    }

    async fn serve(
        listener: TcpListener,
        port: u16,
        server: SocketAddr,
        mut state: watch::Receiver<Network>,
    ) {
        let mut listener = Some(listener);
        loop {
            if *state.borrow_and_update() == Network::Refuses {
                listener = None;
            } else if listener.is_none() {
                listener = Some(
                    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                        .await
                        .unwrap(),
                );
            }
            let accept = async {
                match &listener {
                    Some(listener) => listener.accept().await.unwrap().0,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                client = accept => { tokio::spawn(Self::pass(client, server, state.clone())); }
                changed = state.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn pass(mut client: TcpStream, server: SocketAddr, mut state: watch::Receiver<Network>) {
        let mut server = TcpStream::connect(server).await.unwrap();
        loop {
            let network = *state.borrow_and_update();
            match network {
                Network::Works => tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                    changed = state.changed() => if changed.is_err() { return },
                },
                Network::Swallows => {
                    if state.changed().await.is_err() {
                        return;
                    }
                }
                Network::Refuses => return,
            }
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}
