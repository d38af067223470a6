"""Samples of a flight recorder are counted by what the code does that is nearest to the top of the stack."""

from __future__ import annotations

import pytest

from lab.profile import layer_of, stacks

PRINTED = """
jdk.ExecutionSample {
  startTime = 12:00:00.000
  sampledThread = "Source: arrivals (1/1)#0" (javaThreadId = 99)
  state = "STATE_RUNNABLE"
  stackTrace = [
    java.util.HashMap.putVal(int, Object, Object, boolean, boolean) line: 640
    com.fasterxml.jackson.databind.node.ObjectNode.set(String, JsonNode) line: 12
    StreamExecCalc$50.processElement(StreamRecord) line: 7
    ...
  ]
}

jdk.ExecutionSample {
  startTime = 12:00:00.020
  sampledThread = "flink-metrics" (javaThreadId = 7)
  stackTrace = [
    java.lang.Object.wait(long)
  ]
}
"""


def test_each_sample_has_its_stack() -> None:
    first, second = stacks(PRINTED)
    assert first[0] == "java.util.HashMap.putVal"
    assert first[-1] == "StreamExecCalc$50.processElement"
    assert second == ["java.lang.Object.wait"]


@pytest.mark.parametrize(
    ("frames", "layer"),
    [
        (["java.util.HashMap.get", "millrace.kernel.Measures.learn", "x.flink.y.Task.run"], "order, look-ups, state"),
        (["java.lang.String.charAt", "millrace.kernel.EventReader.read", "millrace.flink.A.b"], "reading JSON"),
        (["com.fasterxml.jackson.core.json.UTF8JsonGenerator.writeRaw", "handwritten.Writing.a"], "writing JSON"),
        (["org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.KafkaProducer.send"], "Kafka's clients"),
        (["org.apache.kafka.clients.consumer.KafkaConsumer.poll", "org.apache.kafka.streams.A.b"], "Kafka's clients"),
        (["org.apache.flink.table.data.binary.BinaryStringData.copy", "StreamExecCalc$5.f"], "rows as bytes"),
        (["StreamExecCalc$5.f", "org.apache.flink.streaming.runtime.tasks.ChainingOutput.collect"], "generated code"),
        (["org.apache.flink.streaming.runtime.tasks.ChainingOutput.collect"], "the engine"),
        (["java.lang.Thread.run"], "everything else"),
    ],
)
def test_the_nearest_frame_that_is_known_names_the_layer(frames: list[str], layer: str) -> None:
    assert layer_of(frames).startswith(layer)
