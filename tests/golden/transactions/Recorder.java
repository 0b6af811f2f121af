package org.apache.kafka.clients.producer.internals;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.utils.*;
/** Prints one JSON object a line: see README.md. */
public class Recorder {
  static TopicPartition TP = new TopicPartition("t", 0);
  static Object get(Object o, String f) throws Exception { Field x = TransactionManager.class.getDeclaredField(f); x.setAccessible(true); return x.get(o); }
  static void set(Object o, String f, Object v) throws Exception { Field x = TransactionManager.class.getDeclaredField(f); x.setAccessible(true); x.set(o, v); }
  static TransactionManager manager(int tv) throws Exception {
    TransactionManager m = new TransactionManager(new LogContext(), "tid", 1000, 100, new ApiVersions(), false);
    set(m, "isTransactionV2Enabled", tv == 2); set(m, "coordinatorSupportsBumpingEpoch", tv >= 1);
    return m;
  }
  static TransactionManager begun(int tv) throws Exception {
    TransactionManager m = manager(tv);
    TransactionalRequestResult r = m.initializeTransactions(false);
    m.nextRequest(false).handleResponse(new InitProducerIdResponse(new InitProducerIdResponseData().setProducerId(7).setProducerEpoch((short) 3)));
    r.await(1, java.util.concurrent.TimeUnit.SECONDS, "x");
    m.beginTransaction();
    return m;
  }
  static TransactionManager.TxnRequestHandler next(TransactionManager m) { return m.nextRequest(false); }
  static void handle(String handler, int tv, Errors e) throws Exception {
    TransactionManager m; TransactionManager.TxnRequestHandler h; AbstractResponse answer;
    short code = e.code();
    ConsumerGroupMetadata g = new ConsumerGroupMetadata("g", 5, "member", Optional.empty());
    Map<TopicPartition, OffsetAndMetadata> offs = Map.of(TP, new OffsetAndMetadata(9));
    switch (handler) {
      case "InitProducerId": m = manager(tv); m.initializeTransactions(false); h = next(m); answer = new InitProducerIdResponse(new InitProducerIdResponseData().setErrorCode(code)); break;
      case "FindCoordinator": case "FindGroupCoordinator": {
        boolean group = handler.equals("FindGroupCoordinator");
        m = begun(tv); Method x = TransactionManager.class.getDeclaredMethod("lookupCoordinator", FindCoordinatorRequest.CoordinatorType.class, String.class); x.setAccessible(true);
        x.invoke(m, group ? FindCoordinatorRequest.CoordinatorType.GROUP : FindCoordinatorRequest.CoordinatorType.TRANSACTION, group ? "g" : "tid");
        h = next(m); answer = FindCoordinatorResponse.prepareResponse(e, group ? "g" : "tid", new Node(1, "h", 1)); break; }
      case "AddPartitionsToTxn": m = begun(tv); m.maybeAddPartition(TP); h = next(m);
        AddPartitionsToTxnResponseData d = new AddPartitionsToTxnResponseData();
        AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult tr = new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult().setName("t");
        tr.resultsByPartition().add(new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult().setPartitionIndex(0).setPartitionErrorCode(code));
        d.resultsByTopicV3AndBelow().add(tr); answer = new AddPartitionsToTxnResponse(d); break;
      case "AddOffsetsToTxn": m = begun(tv); m.sendOffsetsToTransaction(offs, g); h = next(m); answer = new AddOffsetsToTxnResponse(new AddOffsetsToTxnResponseData().setErrorCode(code)); break;
      case "TxnOffsetCommit": m = begun(tv); m.sendOffsetsToTransaction(offs, g); h = next(m);
        if (tv != 2) { h.handleResponse(new AddOffsetsToTxnResponse(new AddOffsetsToTxnResponseData())); h = next(m); }
        answer = new TxnOffsetCommitResponse(0, Map.of(TP, e)); break;
      default: {
        m = begun(tv); set(m, "transactionStarted", true);
        if (handler.equals("EndTxn(commit)")) m.beginCommit(); else m.beginAbort();
        h = next(m); answer = new EndTxnResponse(new EndTxnResponseData().setErrorCode(code)); }
    }
    h.handleResponse(answer);
    show("request", handler, tv, e, m, h.result.isCompleted(), h.result.isCompleted() ? h.result.error() : null, "");
  }
  static void show(String kind, String handler, int tv, Errors e, TransactionManager m, boolean completed, RuntimeException error, String more) throws Exception {
    StringBuilder pending = new StringBuilder();
    TreeSet<String> names = new TreeSet<>();
    for (Object o : (PriorityQueue<?>) get(m, "pendingRequests")) names.add(o.getClass().getSimpleName());
    RuntimeException last = (RuntimeException) get(m, "lastError");
    System.out.println("{\"kind\": \"" + kind + "\", \"handler\": \"" + handler + "\", \"transaction_version\": " + tv + ", \"error\": \"" + e.name() + "\", \"state\": \"" + get(m, "currentState")
      + "\", \"last_error\": " + name(last, e) + ", \"completed\": " + completed + ", \"result_error\": " + name(error, e) + ", \"pending\": [" + String.join(", ", names.stream().map(n -> "\"" + n + "\"").toList())
      + "], \"epoch_bump\": " + get(m, "clientSideEpochBumpRequired") + more + "}");
  }
  static String name(Object o, Errors e) { return o == null ? "null" : o.getClass() == e.exception().getClass() ? "\"its own\"" : "\"" + o.getClass().getSimpleName() + "\""; }
  static void produce(int tv, Errors e) throws Exception {
    TransactionManager m = begun(tv); m.maybeAddPartition(TP);
    if (tv != 2) { AddPartitionsToTxnResponseData d = new AddPartitionsToTxnResponseData();
        AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult tr = new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult().setName("t");
        tr.resultsByPartition().add(new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult().setPartitionIndex(0));
        d.resultsByTopicV3AndBelow().add(tr); next(m).handleResponse(new AddPartitionsToTxnResponse(d)); }
    MemoryRecordsBuilder b = MemoryRecords.builder(ByteBuffer.allocate(512), Compression.NONE, TimestampType.CREATE_TIME, 0L);
    ProducerBatch batch = new ProducerBatch(TP, b, 0); batch.tryAppend(0, null, new byte[3], new org.apache.kafka.common.header.Header[0], null, 0);
    m.maybeUpdateProducerIdAndEpoch(TP);
    batch.setProducerState(m.producerIdAndEpoch(TP), m.sequenceNumber(TP), true); m.incrementSequenceNumber(TP, 1); m.addInFlightBatch(batch); batch.close();
    boolean retry = m.canRetry(new ProduceResponse.PartitionResponse(e, -1, -1, 0), batch);
    if (!retry) m.handleFailedBatch(batch, e.exception(), true);
    show("produce", "Produce", tv, e, m, false, null, ", \"retried\": " + retry + ", \"next_sequence\": " + m.sequenceNumber(TP));
  }
  public static void main(String[] a) throws Exception {
    Class<?> s = Class.forName("org.apache.kafka.clients.producer.internals.TransactionManager$State");
    Method valid = s.getDeclaredMethod("isTransitionValid", s, s); valid.setAccessible(true);
    for (Object target : s.getEnumConstants()) { List<String> from = new ArrayList<>();
      for (Object source : s.getEnumConstants()) if ((boolean) valid.invoke(source, source, target)) from.add("\"" + source + "\"");
      System.out.println("{\"kind\": \"state\", \"state\": \"" + target + "\", \"legal_sources\": [" + String.join(", ", from) + "]}"); }
    for (int tv : new int[] {0, 1, 2}) for (Errors e : Errors.values()) {
      if (e == Errors.NONE) continue;
      produce(tv, e);
      for (String h : new String[] {"InitProducerId", "FindCoordinator", "FindGroupCoordinator", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn(commit)", "EndTxn(abort)"}) {
        if (tv == 2 && (h.startsWith("AddP") || h.startsWith("AddO"))) continue;
        if (tv == 0 && !h.startsWith("Add") && !h.startsWith("EndTxn")) continue;
        handle(h, tv, e);
      }
    }
  }
}
