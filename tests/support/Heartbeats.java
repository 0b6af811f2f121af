package org.apache.kafka.controller;

import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/** Prints what BrokerHeartbeatManager makes of random events: one JSON array a line, the outcome last. */
public class Heartbeats {
    public static void main(String[] args) {
        Random random = new Random(631);
        for (int story = 0; story < Integer.parseInt(args[0]); story++) {
            BrokerHeartbeatManager manager = new BrokerHeartbeatManager(new LogContext(), Time.SYSTEM, TimeUnit.SECONDS.toNanos(9));
            Map<Integer, Boolean> fenced = new HashMap<>();
            StringJoiner told = new StringJoiner(",", "[", "]");
            for (int step = 0; step < 40; step++) {
                int id = 1 + random.nextInt(4);
                int draw = random.nextInt(20);
                if (!fenced.containsKey(id) || draw == 0) {
                    boolean isFenced = !fenced.containsKey(id) || random.nextBoolean();
                    manager.register(id, isFenced);
                    fenced.put(id, isFenced);
                    told.add("[\"register\"," + id + "," + isFenced + "]");
                } else if (draw == 1) {
                    manager.remove(id);
                    fenced.remove(id);
                    told.add("[\"remove\"," + id + "]");
                } else if (draw == 2) {
                    manager.touch(id, true, 5);
                    fenced.put(id, true);
                    told.add("[\"touch\"," + id + ",true,5]");
                } else {
                    long offset = random.nextInt(12), registered = random.nextInt(8), end = random.nextInt(12);
                    boolean wantFence = random.nextInt(8) == 0, wantShutDown = random.nextInt(3) == 0, leads = random.nextBoolean();
                    BrokerControlStates states = manager.calculateNextBrokerState(id, new BrokerHeartbeatRequestData().
                        setBrokerId(id).setCurrentMetadataOffset(offset).setWantFence(wantFence).setWantShutDown(wantShutDown),
                        registered, () -> leads);
                    manager.touch(id, states.next().fenced(), offset);
                    fenced.put(id, states.next().fenced());
                    if (states.next().inControlledShutdown()) manager.maybeUpdateControlledShutdownOffset(id, end);
                    long lowest = manager.lowestActiveOffset();
                    told.add("[\"heartbeat\"," + id + "," + offset + "," + wantFence + "," + wantShutDown + "," + registered + ","
                        + leads + "," + end + ",\"" + states.current() + "\",\"" + states.next() + "\"," + lowest + "]");
                }
            }
            System.out.println(told);
        }
    }
}
