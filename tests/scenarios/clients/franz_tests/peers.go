// Package franztests pins the release of franz-go whose own tests run against the embedded broker.
package franztests

import _ "github.com/twmb/franz-go/pkg/kgo"
