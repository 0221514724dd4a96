//! An echo server: each connection is a task, which reads and writes as if it were alone.
//!
//! `cargo run --release --example echo [ADDRESS:PORT]`; it ends when its standard input does.

use std::io::{Read, Write, stdin, stdout};
use std::net::{SocketAddr, TcpListener, TcpStream};

use regrow_fiber::io::{Async, readable};
use regrow_fiber::{Runtime, spawn};

/// Sends back what comes, until nothing does.
fn echo(mut stream: Async<TcpStream>) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => stream.write_all(&bytes[..count])?,
        }
    }
}

fn serve(address: SocketAddr) -> std::io::Result<()> {
    let listener = Async::<TcpListener>::bind(address)?;
    println!("{}", listener.get_ref().local_addr()?);
    stdout().flush()?;
    spawn(move || {
        for stream in listener.incoming().flatten() {
            spawn(move || echo(stream));
        }
    });
    // What is left when this returns is cancelled.
    let mut line = [0; 4096];
    while readable(stdin(), None).is_ok() && stdin().read(&mut line)? > 0 {}
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| String::from("127.0.0.1:0")).parse()?;
    Ok(Runtime::new().run(move || serve(address))??)
}
