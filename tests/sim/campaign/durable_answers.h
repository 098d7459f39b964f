// What the metadata service has shown to somebody stays: an answer is made of
// durable state, also an answer to a question.
#pragma once

#include "tests/sim/campaign/context.h"

namespace cairn::sim {

// The service is started on a slow engine. One client renames a file while
// another one looks; as soon as the new name is seen, the node loses power, and
// the name must still be there afterwards. Several times. Leaves a file.
io::Task<void> CheckDurableAnswers(Context* context);

}  // namespace cairn::sim
