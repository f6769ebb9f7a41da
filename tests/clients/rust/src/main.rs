//! A member on samsa: prints a line for each batch that it reads, and ends as samsa's stream ends.
//!
//! Arguments: HOST:PORT GROUP TOPIC PARTITIONS CLIENT-ID.

use samsa::prelude::{BrokerAddress, ConsumerGroupBuilder, TcpConnection, TopicPartitionsBuilder};
use tokio_stream::StreamExt;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let given: Vec<String> = std::env::args().collect();
    let (host, port) = given[1].split_once(':').expect("HOST:PORT");
    let brokers = vec![BrokerAddress {
        host: host.to_string(),
        port: port.parse().expect("a port"),
    }];
    let partitions = (0..given[4].parse().expect("a number of partitions")).collect();
    let topics = TopicPartitionsBuilder::new()
        .assign(given[3].clone(), partitions)
        .build();
    let stream = ConsumerGroupBuilder::<TcpConnection>::new(brokers, given[2].clone(), topics)
        .await
        .expect("brokers")
        .client_id(given[5].clone())
        .build()
        .await
        .expect("a coordinator")
        .into_stream();
    tokio::pin!(stream);
    while let Some(batch) = stream.next().await {
        let records = batch.expect("a batch").count();
        if records > 0 {
            println!("read {records}");
        }
    }
}
