"""A partition whose leader is elected anew gets time for it; another refusal is named at once."""

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from millrace.stores import topics
from millrace.stores.topics import TopicError


class Refusing:
    """A consumer whose broker refuses for so many requests."""

    def __init__(self, code: int, times: int) -> None:
        self.code, self.times, self.tries = code, times, 0

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        self.tries += 1
        if self.tries <= self.times:
            raise KafkaException(KafkaError(self.code))
        return 3, 7


@pytest.mark.parametrize("code", topics.ELECTING)
def test_a_partition_without_a_leader_is_tried_again(code):
    reader = Refusing(code, times=2)
    assert topics.span(reader, "127.0.0.1:1", ("raw", 0)) == (3, 7)
    assert reader.tries == 3


def test_an_election_that_does_not_end_is_named(monkeypatch):
    monkeypatch.setattr(topics, "ANSWERS_WITHIN_S", 0.2)
    with pytest.raises(TopicError, match=r"Kafka at 127.0.0.1:1 refused the request: .*[Ll]eader"):
        topics.span(Refusing(topics.ELECTING[0], times=10**6), "127.0.0.1:1", ("raw", 0))


def test_a_denied_request_is_not_repeated():
    reader = Refusing(KafkaError.TOPIC_AUTHORIZATION_FAILED, times=10**6)
    with pytest.raises(TopicError, match="denies access"):
        topics.span(reader, "127.0.0.1:1", ("raw", 0))
    assert reader.tries == 1
