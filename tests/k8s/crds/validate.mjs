// Objects (a JSON array on standard input) against the published models of their kinds. Prints one line a fault; exit 1 if
// there is any, and for a kind of these groups that no model is known for.
import { readFileSync } from "node:fs";
import * as gateway from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1";
import * as keda from "@kubernetes-models/keda/keda.sh/v1alpha1";
import * as prometheus from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";

const models = {
  "gateway.networking.k8s.io/v1": gateway,
  "keda.sh/v1alpha1": keda,
  "monitoring.coreos.com/v1": prometheus,
};

let faults = 0;
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const group = models[object.apiVersion];
  if (!group) continue;
  try {
    if (!group[object.kind]) throw new Error("there is no model of this kind");
    new group[object.kind](object).validate();
  } catch (fault) {
    faults += 1;
    console.log(`${object.kind} ${object.metadata.name}: ${fault.message}`);
  }
}
process.exit(faults ? 1 : 0);
