#include <algorithm>
#include <iterator>

#include "templates/chat.h"

// Templates for models that come without one, by the name of the format they were trained on.
namespace quern::templates {
namespace {

struct NamedTemplate {
  std::string_view name, source;
};

constexpr NamedTemplate kTemplates[] = {
    {"chatml",
     "{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}{%- endfor %}"
     "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"},
    {"gemma",
     "{{ bos_token }}{%- set ns = namespace(lead='') %}{%- for m in messages %}"
     "{%- if m.role == 'system' %}{%- set ns.lead = m.content ~ '\\n\\n' %}{%- else %}"
     "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' ~ ns.lead ~ (m.content | trim) ~ '<end_of_turn>\\n' }}"
     "{%- set ns.lead = '' %}{%- endif %}{%- endfor %}"
     "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{%- endif %}"},
    {"llama3",
     "{{ bos_token }}{%- for m in messages %}"
     "{{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n' ~ (m.content | trim) ~ '<|eot_id|>' }}{%- endfor %}"
     "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"},
    {"mistral",
     "{{ bos_token }}{%- set ns = namespace(lead='') %}{%- for m in messages %}"
     "{%- if m.role == 'system' %}{%- set ns.lead = m.content ~ '\\n\\n' %}"
     "{%- elif m.role == 'user' %}{{ '[INST] ' ~ ns.lead ~ m.content ~ '[/INST]' }}{%- set ns.lead = '' %}"
     "{%- else %}{{ ' ' ~ m.content ~ eos_token }}{%- endif %}{%- endfor %}"},
    {"vicuna",
     "{%- for m in messages %}{%- if m.role == 'system' %}{{ m.content ~ '\\n\\n' }}"
     "{%- elif m.role == 'user' %}{{ 'USER: ' ~ m.content ~ '\\n' }}{%- else %}{{ 'ASSISTANT: ' ~ m.content ~ eos_token ~ '\\n' }}{%- "
     "endif %}"
     "{%- endfor %}{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{%- endif %}"},
};

}  // namespace

std::string_view named_template(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTemplates), std::end(kTemplates), [&](const NamedTemplate& t) { return t.name == name; });
  return found == std::end(kTemplates) ? std::string_view() : found->source;
}

std::vector<std::string_view> template_names() {
  std::vector<std::string_view> names;
  for (const NamedTemplate& t : kTemplates) names.push_back(t.name);
  return names;
}

}  // namespace quern::templates
