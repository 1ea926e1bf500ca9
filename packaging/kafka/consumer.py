"""Learn the labels of a Kafka topic: messages like {"row": {...}, "label": ...}; needs kafka-python.

If the service refuses a message, the program ends with an error and skips nothing.
"""

import json
import os

from kafka import KafkaConsumer

from budgetron.client import Client

consumer = KafkaConsumer(
    os.environ.get("TOPIC", "labels"),
    bootstrap_servers=os.environ.get("KAFKA", "127.0.0.1:9092"),
    group_id="budgetron",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
with Client(os.environ.get("SERVICE", "http://127.0.0.1:8000"), retries=10) as client:
    while True:
        parts = consumer.poll(timeout_ms=1000, max_records=1000)
        messages = [message for part in parts.values() for message in part]
        if not messages:
            continue
        examples = [json.loads(message.value) for message in messages]
        # After a crash, messages come again. The service recognises them by these ids.
        ids = [f"{message.topic}-{message.partition}-{message.offset}" for message in messages]
        client.learn([(example["row"], example["label"]) for example in examples], ids=ids)
        consumer.commit()  # now that the labels are on the disk of the service
