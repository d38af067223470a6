// What millrace/engines/storm/nimbus.py uses of Storm 2.8.3's storm.thrift; a reader skips the other fields.
struct SupervisorSummary {
  1: string host;
  2: i32 uptime_secs;
  3: i32 num_workers;
}
struct TopologySummary {
  1: string id;
  2: string name;
  5: i32 num_workers;
  7: string status;
}
struct NimbusSummary {
  4: bool isLeader;
}
struct ClusterSummary {
  1: list<SupervisorSummary> supervisors;
  3: list<TopologySummary> topologies;
  4: list<NimbusSummary> nimbuses;
}
struct KillOptions {
  1: i32 wait_secs;
}
exception NotAliveException {
  1: string msg;
}
service Nimbus {
  ClusterSummary getClusterInfo();
  void killTopologyWithOpts(1: string name, 2: KillOptions options) throws (1: NotAliveException e);
}
