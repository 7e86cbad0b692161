#include "models/family.h"

#include "base/error.h"

namespace quern::models {

#define QUERN_FAMILY(architecture, build, models) LanguageModel build(const Checkpoint&, const GraphOptions&);
#include "models/families.inc"
#undef QUERN_FAMILY

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
#define QUERN_FAMILY(architecture, build, models) {#architecture, models, build},
#include "models/families.inc"
#undef QUERN_FAMILY
  };
  return list;
}

LanguageModel build(const Checkpoint& checkpoint, const GraphOptions& options) {
  const std::string architecture = checkpoint.architecture();
  std::string known;
  for (const Family& family : families()) {
    if (family.architecture == architecture) return family.build(checkpoint, options);
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  throw Error(Code::unsupported, "the architecture '" + architecture + "' is not supported")
      .at(checkpoint.path())
      .hint("supported: " + known);
}

}  // namespace quern::models
