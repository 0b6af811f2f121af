// Writes the time to a topic and reads the topic in a group, whatever happens to the brokers, and says so line by line:
// "produced <ms>" for each acknowledged record, "consumed <ms>" for each that was read. Arguments: brokers, topic, group.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pause = 100 * time.Millisecond

var output sync.Mutex

func tell(what string, value []byte) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf("%s %s\n", what, value)
}

func open(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(strings.Split(os.Args[1], ",")...))
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	return client
}

func produce() {
	client := open(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.DefaultProduceTopic(os.Args[2]))
	for {
		now := strconv.FormatInt(time.Now().UnixMilli(), 10)
		client.Produce(context.Background(), kgo.StringRecord(now), func(record *kgo.Record, err error) {
			if err == nil {
				tell("produced", record.Value)
			} else {
				fmt.Fprintln(os.Stderr, "produce:", err)
			}
		})
		time.Sleep(pause)
	}
}

func consume() {
	client := open(kgo.ConsumeTopics(os.Args[2]), kgo.ConsumerGroup(os.Args[3]))
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachError(func(_ string, partition int32, err error) {
			fmt.Fprintln(os.Stderr, "fetch:", partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) { tell("consumed", record.Value) })
	}
}

func main() {
	go produce()
	consume()
}
