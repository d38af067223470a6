"""Where `lab.mutations` breaks the code, and the test of docs/behaviours.md that each turns red: the one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One place in the code, broken."""

    test: str
    """As docs/behaviours.md names it."""
    red: str
    """The beginning of the statement in the test's module that fails: another failure shows nothing."""
    file: str
    old: str
    """It occurs once in the file."""
    new: str


LIFE = "tests/infra/test_stack_life.py"

MUTANTS = {
    # The rule's declaration stays: the oracle reads it, too.
    "flink-forgets-the-edge-of-a-rule": Mutant(
        test="tests/conformance/test_scenarios.py::test_it_satisfies",
        red="assert found == Counter(",
        file="millrace/kernel/java/millrace/kernel/Others.java",
        old="if ((Long) row[SEEN] >= since &&",
        new="if ((Long) row[SEEN] > since &&",
    ),
    "flink-skips-what-was-deleted-unread": Mutant(
        test="tests/flink/test_losses.py::"
        "test_messages_deleted_while_a_job_was_stopped_fail_it_by_name_until_they_are_given_up",
        red='assert failed.state == "failed"',
        file="millrace/engines/flink/java/millrace/flink/arrivals/Resumption.java",
        old="if (!isThere && loss.isIn(accepted)) {",
        new="if (!isThere) {",
    ),
    "gateway-lets-others-in": Mutant(
        test="tests/infra/test_gateway.py::test_only_its_user_can_reach_it",
        red="assert stat.S_IMODE(at(server).parent.stat().st_mode) == 0o700",
        file="millrace/engines/flink/java/millrace/flink/submission/Gateway.java",
        old='PosixFilePermissions.fromString("rwx------")',
        new='PosixFilePermissions.fromString("rwxr-xr-x")',
    ),
    "flink-leaves-the-last-windows-open": Mutant(
        test="tests/infra/test_backfill.py::test_stored_events_give_the_same_alerts_again",
        red="assert done.returncode == exits",
        file="millrace/engines/flink/engine.py",
        old='savepoints", drain=True)',
        new='savepoints", drain=False)',
    ),
    "spark-writes-a-batch-again": Mutant(
        test="tests/spark/test_files.py::test_a_batch_that_is_written_again_changes_nothing",
        red='assert said["a batch again"] == [10, 10]',
        file="millrace/engines/spark/files.py",
        old='if staging.has("_SUCCESS"):',
        new="if False:",
    ),
    "hdfs-takes-changes-of-web-pages": Mutant(
        test="tests/infra/test_stack_clients.py::test_hdfs_changes_nothing_for_a_web_page",
        red='assert answers(url, browser, b"") == 400',
        file="millrace/servers/hdfs.py",
        old='"dfs.webhdfs.rest-csrf.enabled": "true"',
        new='"dfs.webhdfs.rest-csrf.enabled": "false"',
    ),
    # The default of librdkafka, and of no Java client.
    "traffic-goes-to-other-partitions": Mutant(
        test="tests/infra/test_stack_traffic.py::test_all_of_it_arrives_in_order_and_each_key_keeps_its_partition",
        red="assert all(r.partition == partition_of(",
        file="millrace/stores/topics.py",
        old='"partitioner": "murmur2_random"',
        new='"partitioner": "consistent_random"',
    ),
    "down-leaves-processes": Mutant(
        test=f"{LIFE}::test_down_leaves_no_process_no_socket_and_the_data_and_with_purge_only_records",
        red="assert what_runs(small) == []",
        file="millrace/stack/startup.py",
        old="has_obeyed = processes.stop(record, STOP_WITHIN_S)",
        new="has_obeyed = True",
    ),
    "ctrl-c-leaves-processes": Mutant(
        test=f"{LIFE}::test_ctrl_c_leaves_no_jvm_of_what_it_had_started",
        red="assert (up.returncode, what_runs(small)) == (130, []), output",
        file="millrace/stack/startup.py",
        old="stop_all(self.settings, self.begun, self.servers, self.report)",
        new="pass",
    ),
    "two-ups-start-a-server-twice": Mutant(
        test=f"{LIFE}::test_two_ups_at_once_start_each_server_once_and_write_for_their_user_only",
        red="assert (first.returncode, second.returncode) == (0, 0), outputs",
        file="millrace/stack/lock.py",
        old="fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        new="pass",
    ),
    "jars-are-compared-by-size": Mutant(
        test="tests/infra/test_jars.py::test_a_download_that_differs_from_the_lock_is_refused",
        red="with pytest.raises(JarError, match=",
        file="millrace/machine/jars/__init__.py",
        old="if found != locked:",
        new="if found.size != locked.size:",
    ),
    "postgres-is-ready-before-it-answers": Mutant(
        test="tests/infra/test_postgres.py::test_it_is_unready_while_it_does_not_answer",
        red="assert not server.is_ready(0)",
        file="millrace/servers/postgres.py",
        old="PQPING_OK = 0",
        new="PQPING_OK = 2",
    ),
    "airflow-serves-its-logs-to-the-network": Mutant(
        test="tests/infra/test_stack_airflow.py::test_nothing_listens_beyond_loopback_not_even_the_log_servers",
        red="assert listening == {",
        file="millrace/servers/airflow.py",
        old='if self.part in ("scheduler", "triggerer") else []',
        new='if self.part == "scheduler" else []',
    ),
    "pods-may-gain-privileges": Mutant(
        test="tests/terraform/test_kubernetes_target.py::test_the_pods_of_the_jobs_satisfy_restricted_pod_security",
        red="taken(server, pods)",
        file="terraform/modules/job/kubernetes.tf",
        old="allowPrivilegeEscalation = false",
        new="allowPrivilegeEscalation = true",
    ),
}
"""By name."""
