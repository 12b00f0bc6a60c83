"""Trainers, metrics, helm test, what users pass through, and the chart as a package; one sentence a test."""

import re
import unittest

import chart
import yaml
from chart_case import Case, default_values


class TrainerTest(Case):
    def job(self):
        return chart.render_ci("trainer").one("Job")

    def test_trainers_are_off_by_default(self):
        self.assertEqual(chart.render_ci("minimal").all("Job"), [])

    def test_trainers_are_an_indexed_job_with_failures_counted_per_index(self):
        spec = self.job()["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual((spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]), (3, 3, 10))

    def test_a_lost_spot_node_is_no_failure(self):
        rule = self.job()["spec"]["podFailurePolicy"]["rules"][0]
        self.assertEqual(rule, {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]})
        self.assertEqual(self.job()["spec"]["template"]["spec"]["restartPolicy"], "Never")

    def test_wrong_flags_and_lost_state_fail_the_job_at_once(self):
        rule = self.job()["spec"]["podFailurePolicy"]["rules"][1]
        self.assertEqual((rule["action"], rule["onExitCodes"]["values"]), ("FailJob", [2, 5]))
        self.assertEqual(rule["onExitCodes"]["containerName"], chart.main_container(self.job()["spec"]["template"])["name"])

    def test_trainers_tolerate_spot_nodes_and_shards_do_not(self):
        objects = chart.render_ci("trainer")
        keys = {item["key"] for item in objects.one("Job")["spec"]["template"]["spec"]["tolerations"]}
        self.assertIn("cloud.google.com/gke-spot", keys)
        self.assertNotIn("tolerations", objects.shards()["spec"]["template"]["spec"])

    def test_a_changed_trainer_is_another_job_of_the_same_run(self):
        overrides = {"insecure": True, "trainer": {"enabled": True, "job": "run", "data": "/d"}}
        one = chart.render(overrides=overrides).one("Job")
        overrides["trainer"]["extraArgs"] = ["--seed=2"]
        other = chart.render(overrides=overrides).one("Job")
        self.assertNotEqual(one["metadata"]["name"], other["metadata"]["name"])
        for job in (one, other):
            self.assertEqual(chart.flags(chart.main_container(job["spec"]["template"]))["job"], "run")

    def test_the_model_is_an_immutable_config_map_that_the_trainer_reads(self):
        objects = chart.render_ci("trainer")
        volumes = objects.one("Job")["spec"]["template"]["spec"]["volumes"]
        name = next(volume["configMap"]["name"] for volume in volumes if volume["name"] == "model")
        self.assertIs(objects.one("ConfigMap", name)["immutable"], True)


class MetricsTest(Case):
    def test_monitors_are_made_only_where_the_operator_is(self):
        values = [chart.CHART / "ci" / "monitoring-values.yaml"]
        kinds = {item["kind"] for item in chart.render(values, apis=())}
        self.assertFalse(kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule"})
        kinds = {item["kind"] for item in chart.render(values)}
        self.assertLessEqual({"ServiceMonitor", "PrometheusRule"}, kinds)

    def test_monitoring_is_off_by_default(self):
        kinds = {item["kind"] for item in chart.render_ci("minimal")}
        self.assertFalse(kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule"})

    def test_a_service_monitor_selects_each_server_once(self):
        objects = chart.render_ci("monitoring")
        wanted = objects.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
        chosen = [item for item in objects.all("Service") if wanted <= item["metadata"]["labels"].items()]
        parts = sorted(item["spec"]["selector"]["app.kubernetes.io/component"] for item in chosen)
        self.assertEqual(parts, ["coordinator", "shard"])

    def test_labels_and_relabelings_of_users_reach_the_monitor(self):
        monitor = chart.render_ci("monitoring").one("ServiceMonitor")
        self.assertEqual(monitor["metadata"]["labels"]["release"], "prometheus")
        self.assertIn({"targetLabel": "cluster", "replacement": "test"}, monitor["spec"]["endpoints"][0]["relabelings"])

    def test_dashboards_carry_the_label_that_grafana_looks_for(self):
        for item in chart.render_ci("ha").all("ConfigMap"):
            if "-dashboard-" in item["metadata"]["name"]:
                self.assertEqual(item["metadata"]["labels"]["grafana_dashboard"], "1")
                self.assertEqual(item["metadata"]["annotations"]["grafana_folder"], "dslide")

    def test_there_is_a_config_map_for_every_dashboard_file(self):
        files = {path.name for path in (chart.CHART / "files" / "dashboards").glob("*.json")}
        made = {
            name for item in chart.render_ci("ha").all("ConfigMap")
            if "-dashboard-" in item["metadata"]["name"] for name in item["data"]
        }
        self.assertEqual(made, files)


class HelmTestTest(Case):
    def pod(self):
        return chart.render_ci("tls").one("Pod")

    def test_helm_test_is_one_pod_that_is_deleted_when_it_succeeds(self):
        notes = self.pod()["metadata"]["annotations"]
        self.assertEqual(notes["helm.sh/hook"], "test")
        self.assertEqual(notes["helm.sh/hook-delete-policy"], "before-hook-creation,hook-succeeded")
        self.assertEqual(self.pod()["spec"]["restartPolicy"], "Never")

    def test_helm_test_trains_on_the_cluster_with_our_command(self):
        train = chart.main_container(self.pod())
        self.assertIn("train", train["args"])
        self.assertEqual(chart.flags(train)["job"], "helm-test-$(POD_UID)")

    def test_helm_test_ends(self):
        self.assertLessEqual(self.pod()["spec"]["activeDeadlineSeconds"], 600)


class PassthroughTest(Case):
    def setUp(self):
        self.objects = chart.render_ci("passthrough")
        self.shards = self.objects.shards()
        self.pod = self.shards["spec"]["template"]

    def test_registry_and_pull_secrets_of_the_parent_chart_are_used(self):
        self.assertEqual(chart.main_container(self.pod)["image"], "mirror.example.com/dslide:0.1.0")
        self.assertEqual(self.pod["spec"]["imagePullSecrets"], [{"name": "mirror"}, {"name": "extra"}])

    def test_a_digest_outranks_the_tag(self):
        image = chart.main_container(chart.render_ci("ha").shards()["spec"]["template"])["image"]
        self.assertRegex(image, r"^registry\.example\.com/ml/dslide@sha256:[0-9a-f]{64}$")

    def test_pods_take_labels_annotations_and_places_of_the_user(self):
        self.assertEqual(self.pod["metadata"]["labels"]["tier"], "data")
        self.assertEqual(self.pod["metadata"]["annotations"]["sidecar.istio.io/inject"], "false")
        spec = self.pod["spec"]
        self.assertEqual(spec["nodeSelector"], {"disk": "ssd"})
        self.assertEqual((spec["priorityClassName"], spec["runtimeClassName"]), ("high", "gvisor"))
        self.assertIn("nodeAffinity", spec["affinity"])
        self.assertEqual(spec["topologySpreadConstraints"][0]["labelSelector"], {"matchLabels": {"tier": "data"}})

    def test_containers_and_volumes_of_the_user_are_added(self):
        spec = self.pod["spec"]
        self.assertEqual([item["name"] for item in spec["containers"]], ["shard", "shipper"])
        self.assertEqual([item["name"] for item in spec["initContainers"]], ["wait"])
        self.assertIn({"name": "scratch", "emptyDir": {}}, spec["volumes"])
        self.assertIn({"name": "scratch", "mountPath": "/scratch"}, chart.main_container(self.pod)["volumeMounts"])

    def test_flags_and_environment_of_the_user_come_last(self):
        container = chart.main_container(self.pod)
        self.assertEqual(container["args"][-1], "--max-clients=64")
        self.assertEqual(container["env"][-1]["name"], "DSLIDE_LOG_SYNC_INTERVAL")
        self.assertEqual(container["envFrom"][0]["configMapRef"]["name"], "site")

    def test_extra_objects_are_templates(self):
        self.assertEqual(self.objects.one("ConfigMap", "-extra")["data"], {"shards": "3"})
        self.assertEqual(self.objects.one("Secret")["metadata"]["name"], "rel-text")


class PackageTest(Case):
    def test_the_chart_depends_on_no_other_chart(self):
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertNotIn("dependencies", meta)
        self.assertFalse((chart.CHART / "charts").exists())

    def test_chart_yaml_has_what_a_catalogue_shows(self):
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertEqual((meta["apiVersion"], meta["type"]), ("v2", "application"))
        for key in ("version", "appVersion"):
            self.assertRegex(meta[key], r"^\d+\.\d+\.\d+$")
        for key in ("description", "sources", "maintainers", "annotations"):
            self.assertTrue(meta[key], key)

    def test_the_application_version_is_that_of_the_project(self):
        project = re.search(r"project\(dslide VERSION ([0-9.]+)", (chart.ROOT / "CMakeLists.txt").read_text())
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertEqual(meta["appVersion"], project.group(1))

    def test_the_change_log_describes_this_version(self):
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertIn(f"## {meta['version']}", (chart.CHART / "CHANGELOG.md").read_text())

    def test_values_stand_in_the_usual_order(self):
        order = [
            "global", "nameOverride", "fullnameOverride", "commonLabels", "commonAnnotations", "image",
            "imagePullSecrets", "replicaCount", "config", "extraArgs", "extraEnv", "extraEnvFrom", "service",
            "persistence", "shard", "tls", "resources", "startupProbe", "podSecurityContext", "securityContext",
            "nodeSelector", "tolerations", "affinity", "pdb", "networkPolicy", "metrics", "serviceAccount",
            "tests", "extraVolumes", "extraVolumeMounts", "initContainers", "sidecars", "extraObjects",
        ]
        values = default_values()
        for where in (values, values["shard"], values["coordinator"], values["trainer"]):
            places = [order.index(key) for key in where if key in order]
            self.assertEqual(places, sorted(places), list(where))


class LogTest(Case):
    def test_every_program_logs_as_it_is_told(self):
        for chosen, flags in (
            ({}, {}),
            ({"logFormat": "json"}, {"log-format": "json"}),
            ({"logLevel": "debug", "logFormat": "json"}, {"log-level": "debug", "log-format": "json"}),
        ):
            for secured in ({"insecure": True}, {"tls": {"enabled": True, "existingSecret": "s"}}):
                values = {**secured, **chosen, "trainer": {"enabled": True, "job": "run", "data": "/d"}}
                objects = chart.render(overrides=values)
                for name, pod in objects.pods().items():
                    given = chart.flags(chart.main_container(pod))
                    with self.subTest(chosen=chosen, pod=name):
                        self.assertEqual({key: given[key] for key in given if key.startswith("log-")}, flags)


class NotesTest(Case):
    def test_notes_give_the_address_and_the_next_commands(self):
        text = chart.notes({"insecure": True})
        for part in ("rel-dslide-coordinator.ns.svc:7000", "port-forward", "helm test", "dslide status"):
            self.assertIn(part, text)

    def test_notes_warn_of_plaintext_and_of_missing_volumes(self):
        text = chart.notes({"insecure": True, "shard": {"persistence": {"enabled": False}}})
        self.assertIn("WARNING: insecure", text)
        self.assertIn("WARNING: persistence", text)
        secure = {"tls": {"enabled": True, "existingSecret": "s"}, "shard": {"durability": "log"}}
        self.assertNotIn("WARNING", chart.notes(secure))

    def test_notes_warn_of_monitors_that_could_not_be_made(self):
        values = {"insecure": True, "metrics": {"podMonitor": {"enabled": True}}}
        self.assertIn("Install the Prometheus operator", chart.notes(values))
        self.assertNotIn("Install the Prometheus operator", chart.notes(values, [chart.MONITORING]))


if __name__ == "__main__":
    chart.renderer()
    chart.run_tests()
