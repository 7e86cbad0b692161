#pragma once

#include <string>
#include <vector>

#include "plan/profile.h"

namespace quern::cli {

/// `quern run MODEL.onnx`: what it was asked for.
struct GraphRunOptions {
  std::string model;
  std::vector<std::string> inputs;          // NAME=FILE.npy
  std::string input_folder, output_folder;  // of NAME.npy files; empty: none
  bool json = false, verbose = false;
  plan::Profile* profile = nullptr;
};

/// Reads the inputs, runs the graph once (with a profile: some more times, for that), writes the outputs to the folder or prints what they
/// are. Errors: UsageError (an input that the model does not have, or given twice), those of files, formats and the graph.
void run_graph(const GraphRunOptions& options);

/// The file of a value in an input or output folder: its name with every character other than [A-Za-z0-9_.-] replaced by '_', and ".npy".
std::string value_file_name(std::string_view value);

}  // namespace quern::cli
